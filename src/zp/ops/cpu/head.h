// The output head: candidates' logits and the log-sum-exp over the vocabulary, never a whole row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zp/ops/cpu/workers.h"
#include "zp/ops/factory.h"

namespace zp::cpu {

/// Holds the scratch memory of head(), sized once. Used by one stream's thread at a time.
class Head final {
 public:
  explicit Head(const OpsLimits& limits);

  [[nodiscard]] static size_t scratch_bytes(const OpsLimits& limits);

  void run(Workers& workers, const HeadArgs& args);

 private:
  /// What a row's logits in one chunk of the vocabulary come to: sum of exp(logit - top).
  struct Partial {
    float top = 0;
    float sum = 0;
  };
  /// A candidate of a row, and where its logit goes.
  struct Candidate {
    int32_t id = 0;
    int32_t row = 0;
    int64_t index = 0;
  };
  struct Item;

  void sort_candidates(const HeadArgs& args, int64_t chunks);
  void run_item(const Workers& workers, const HeadArgs& args, const Item& item, int32_t thread);
  [[nodiscard]] static float combine(std::span<const Partial> partials);

  std::vector<Partial> partials_;      // [R, chunks]
  std::vector<Candidate> candidates_;  // sorted by chunk, then by row
  std::vector<int64_t> chunk_begin_;   // [chunks + 1], first candidate
};

}  // namespace zp::cpu
