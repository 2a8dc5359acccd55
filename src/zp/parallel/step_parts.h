// Cuts a step into parts: head rows for the ranks that have them, sequences for a pipeline.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zp/model/forward.h"

namespace zp {

/// Some of a step's head rows, with their candidates, by their numbers in the step.
struct HeadPart {
  std::vector<int64_t> rows;  ///< numbers of head rows, rising
};

/// Which head rows each of `parts` parts has, when head row `row` belongs to part part_of_row[row].
[[nodiscard]] std::vector<HeadPart> split_heads(const ForwardStep& step, std::span<const int32_t> part_of_row,
                                                int32_t parts);

/// The step with only these head rows.
[[nodiscard]] ForwardStep with_heads(const ForwardStep& step, const HeadPart& part);

/// Puts a part's result where it belongs in the result of the whole step, which is sized on the first call.
void merge_heads(const ForwardStep& step, const HeadPart& part, const ForwardResult& from, ForwardResult& result);

/// A step of its own, made of neighbouring sequences of another.
struct MicroBatch {
  ForwardStep step;
  HeadPart heads;
};

/// Cuts a step into at most `count` micro-batches of about equally many tokens, to be run in their order. A sequence
/// that reuses rows of an earlier micro-batch reads them from the pool, where these are kept; rows that are not kept
/// keep their sequences together. `block_tokens`: tokens of a pool block.
[[nodiscard]] std::vector<MicroBatch> split_step(const ForwardStep& step, int32_t count, int32_t block_tokens);

}  // namespace zp
