// Submits requests as they are, and writes what the engine found.
#include "run_raw.h"

#include <nlohmann/json.hpp>

#include "collector.h"

namespace zp::app {
namespace {

std::string raw_line(const RowId& id, const Answer& answer, const Scores& scores) {
  nlohmann::ordered_json line;
  if (const auto* index = std::get_if<int64_t>(&id))
    line["id"] = *index;
  else
    line["id"] = std::get<std::string>(id);
  line["best"] = scores.best;
  line["logits"] = answer.logits;
  line["logprobs"] = scores.logprobs;
  line["vocab_logprobs"] = scores.vocab_logprobs;
  line["prompt_tokens"] = answer.prompt_tokens;
  line["cached_tokens"] = answer.cached_tokens;
  return line.dump();
}

void submit_rows(RawRows& rows, Engine& engine, Collector& collector) {
  int64_t index = 0;
  while (std::optional<RawRow> row = rows.next()) {
    collector.rethrow_failure();
    const int64_t at = index++;
    if (const auto* error = std::get_if<RowError>(&row->request)) {
      collector.take_error(row->id, at, *error);
      continue;
    }
    try {
      (void)engine.submit(std::get<Request>(row->request),
                          [id = row->id, at, candidates = std::get<Request>(row->request).candidates.size(),
                           &collector](uint64_t, const Outcome& outcome) {
                            collector.take(
                                id, at, outcome, candidates,
                                [&](const Answer& answer, const ItemResult&, const Scores& scores) {
                                  return raw_line(id, answer, scores);
                                },
                                [](TaskMetrics& metrics, const Scores&) { metrics.add_answer(0, std::nullopt); });
                          });
    } catch (const Error& error) {
      collector.take_error(row->id, at, {error.code(), error.what()});
    }
  }
}

}  // namespace

TaskMetricsSummary run_raw(RawRows& rows, Engine& engine, const std::string& output) {
  Collector collector(output, 1, nullptr);  // there is no choice that could be right
  try {
    submit_rows(rows, engine, collector);
  } catch (...) {
    engine.drain();  // callbacks refer to the collector
    throw;
  }
  engine.drain();
  return collector.close();
}

}  // namespace zp::app
