// Does any task file give a usable task or a zp::Error, and nothing else?
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "zp/base/error.h"
#include "zp/base/utf8.h"
#include "zp/task/answer.h"
#include "zp/task/label_set.h"
#include "zp/task/prompt.h"
#include "zp/task/task_spec.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// A task that was accepted must hold its limits, find its own values, render and answer.
void use(const zp::TaskSpec& spec) {
  require(spec.choices.size() >= zp::kMinChoices && spec.choices.size() <= zp::kMaxChoices);
  require(!spec.instructions.empty() && !zp::find_invalid_utf8(spec.instructions));
  for (std::size_t i = 0; i < spec.choices.size(); ++i) {
    require(zp::find_choice(spec, spec.choices[i].value) == i);
    require(spec.choices[i].value.find('\n') == std::string::npos);
  }
  const zp::PromptRenderer renderer(spec, zp::choose_labels(spec, [](std::string_view) { return true; }));
  zp::Row row;
  row.columns = {{"text", "a"}, {"t", "b"}};
  const zp::PreparedRow prepared = renderer.prepare(row);
  require(prepared.error.has_value() == prepared.context.empty());
  const zp::ItemResult result{.logits = std::vector<double>(spec.choices.size(), 1.0), .log_sum_exp = 9};
  const auto scores = std::get<zp::Scores>(zp::score_candidates(result, spec.choices.size()));
  const auto json = nlohmann::json::parse(zp::answer_line(spec, prepared.id, scores, result));
  require(json.at("probabilities").size() == spec.choices.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  try {
    use(zp::parse_task_spec({reinterpret_cast<const char*>(data), size}, "fuzz.yaml"));
  } catch (const zp::Error&) {
  }
  return 0;
}
