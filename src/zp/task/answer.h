// What do a candidate's logits say, and how is an answer written?
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "zp/task/prompt.h"
#include "zp/task/row.h"
#include "zp/task/task_spec.h"

namespace zp {

/// What the engine found for one row.
struct ItemResult {
  std::vector<double> logits;  ///< [candidates], in the order of the labels.
  double log_sum_exp = 0;      ///< Of the logits of the whole vocabulary.
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  ///< Of these, not computed again.
};

/// What follows from it, all in double precision.
struct Scores {
  std::size_t best = 0;                ///< The most likely candidate; the lowest index among equals.
  std::vector<double> probabilities;   ///< [candidates] softmax over the candidates.
  std::vector<double> logprobs;        ///< [candidates] its logarithm; exact where the probability underflows.
  std::vector<double> vocab_logprobs;  ///< [candidates] log-probability over the whole vocabulary.
  double label_mass = 0;               ///< Probability over the vocabulary of all candidates together, at most 1.
};

/// Scores a result. An error value of kCorrupt if the result has another number of logits, one that is not finite, or a
/// log-sum-exp that is not finite or more than 1e-3 below that of the candidates alone: a smaller excess is rounding of
/// a single-precision sum and is cut off. Thread-safe.
[[nodiscard]] std::variant<Scores, RowError> score_candidates(const ItemResult& result, std::size_t candidate_count);

/// One JSON object without a line end:
///     {"id":..,"answer":..,"probabilities":{value:p,..},"logprobs":{..},"vocab_logprobs":{..},"label_mass":m,
///      "prompt_tokens":n,"cached_tokens":n}
/// The id is a number if it is the row's index, else a string. The answer is a bool, number or string as the task file
/// has it; keys are the values as written there, in its order.
[[nodiscard]] std::string answer_line(const TaskSpec& spec, const RowId& id, const Scores& scores,
                                      const ItemResult& result);

/// {"id":..,"error":{"code":..,"message":..}} without a line end.
[[nodiscard]] std::string error_line(const RowId& id, const RowError& error);

}  // namespace zp
