// How are logits scored in double precision, and how does an answer look as JSON?
#include "zp/task/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "zp/base/check.h"
#include "zp/task/text_check.h"

namespace zp {
namespace {

using Json = nlohmann::ordered_json;

/// A single-precision log-sum-exp over a large vocabulary is good to about 1e-6; beyond this it is wrong, not rounded.
constexpr double kLogSumExpSlack = 1e-3;

RowError corrupt(std::string message) { return {.code = ErrorCode::kCorrupt, .message = std::move(message)}; }

std::optional<RowError> find_fault(const ItemResult& result, std::size_t candidate_count) {
  if (result.logits.size() != candidate_count || candidate_count == 0) {
    return corrupt(
        fmt::format("the engine returned {} logits for {} candidates", result.logits.size(), candidate_count));
  }
  for (std::size_t i = 0; i < candidate_count; ++i) {
    if (!std::isfinite(result.logits[i])) {
      return corrupt(fmt::format("the logit of candidate {} is {}, not a finite number", i, result.logits[i]));
    }
  }
  if (!std::isfinite(result.log_sum_exp)) {
    return corrupt(fmt::format("the log-sum-exp of the logits is {}, not a finite number", result.log_sum_exp));
  }
  return std::nullopt;
}

Json id_json(const RowId& id) {
  return std::visit([](const auto& value) { return Json(value); }, id);
}

Json answer_json(const TaskChoice& choice) {
  switch (choice.kind) {
    case ScalarKind::kString: return choice.value;
    case ScalarKind::kBool: return ascii_lower(choice.value) == "true";
    case ScalarKind::kNumber: return Json::parse(choice.value);  // classify_scalar() admits only what parses
  }
  return choice.value;
}

Json by_value(const TaskSpec& spec, const std::vector<double>& numbers) {
  Json object = Json::object();
  for (std::size_t i = 0; i < numbers.size(); ++i) object[spec.choices[i].value] = numbers[i];
  return object;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::variant<Scores, RowError> score_candidates(const ItemResult& result, std::size_t candidate_count) {
  if (std::optional<RowError> fault = find_fault(result, candidate_count)) return *std::move(fault);
  Scores scores;
  const auto best = std::max_element(result.logits.begin(), result.logits.end());  // the first of equals
  scores.best = static_cast<std::size_t>(best - result.logits.begin());
  double sum = 0;
  for (const double logit : result.logits) sum += std::exp(logit - *best);
  const double log_sum = std::log(sum);
  // Relative to the best logit throughout, so that large logits do not cost digits.
  const double excess = *best + log_sum - result.log_sum_exp;
  if (excess > kLogSumExpSlack) {
    return corrupt(fmt::format("the log-sum-exp over the vocabulary, {}, is below that of the candidates alone, {}",
                               result.log_sum_exp, *best + log_sum));
  }
  for (const double logit : result.logits) {
    const double relative = logit - *best;
    scores.logprobs.push_back(relative - log_sum);
    scores.probabilities.push_back(std::exp(relative) / sum);
    scores.vocab_logprobs.push_back(std::min(logit - result.log_sum_exp, 0.0));
  }
  scores.label_mass = std::min(std::exp(excess), 1.0);
  return scores;
}

std::string answer_line(const TaskSpec& spec, const RowId& id, const Scores& scores, const ItemResult& result) {
  ZP_CHECK(scores.probabilities.size() == spec.choices.size(), "{} scores for {} choices", scores.probabilities.size(),
           spec.choices.size());
  Json json;
  json["id"] = id_json(id);
  json["answer"] = answer_json(spec.choices[scores.best]);
  json["probabilities"] = by_value(spec, scores.probabilities);
  json["logprobs"] = by_value(spec, scores.logprobs);
  json["vocab_logprobs"] = by_value(spec, scores.vocab_logprobs);
  json["label_mass"] = scores.label_mass;
  json["prompt_tokens"] = result.prompt_tokens;
  json["cached_tokens"] = result.cached_tokens;
  return dump(json);
}

std::string error_line(const RowId& id, const RowError& error) {
  Json json;
  json["id"] = id_json(id);
  json["error"]["code"] = to_string(error.code);
  json["error"]["message"] = error.message;
  return dump(json);
}

}  // namespace zp
