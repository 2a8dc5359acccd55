// Reads published traces as workloads.
#pragma once

#include <filesystem>

#include "zp/simulate/workload.h"

namespace zp {

/// Reads a file, or all .jsonl files of a folder as one trace. The form is found from its first line:
/// - Mooncake (.jsonl: timestamp in ms, input_length, hash_ids of 512-token blocks): equal ids are equal tokens;
/// - agent calls (.jsonl: timestamp in us, input): four bytes of the prompt are a token, so that prompts share tokens
/// as
///   far as they share text;
/// - Azure (.csv: TIMESTAMP with its date, ContextTokens, ...) and lengths (.csv: num_prefill_tokens, ...): nothing is
///   shared; lengths arrive at once;
/// - ServeGen (-dataset.json), see servegen.h.
/// Requests come in order of their times, whatever that of the file; those without tokens are left out. Throws
/// kNotFound, kIo, or kCorrupt with file, line and what is wrong; requests of more than 2^23 tokens and traces of more
/// than ten years are refused.
[[nodiscard]] Workload read_trace(const std::filesystem::path& path);

}  // namespace zp
