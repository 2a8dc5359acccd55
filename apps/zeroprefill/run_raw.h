// `zeroprefill run` without a task: requests in, logits out, in input order.
#pragma once

#include <string>

#include "raw_rows.h"
#include "zeroprefill/engine.h"
#include "zp/task/metrics.h"

namespace zp::app {

/// Submits all rows and writes a line for each: the candidates' logits, their log-probabilities among themselves
/// ("logprobs") and over the vocabulary ("vocab_logprobs"), the best one's index, and the counts of tokens. Throws kIo,
/// naming the file.
[[nodiscard]] TaskMetricsSummary run_raw(RawRows& rows, Engine& engine, const std::string& output);

}  // namespace zp::app
