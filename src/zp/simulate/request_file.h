// Workloads as rows that `zeroprefill run` answers.
#pragma once

#include <cstdint>
#include <filesystem>

#include "zp/simulate/workload.h"

namespace zp {

/// Writes a JSON line a request, in order: "id" (its part and number), "tokens" (ids in [0, vocabulary), the same where
/// requests share text) and two "candidates". Throws kIo, naming the file. `vocabulary` is at least 2.
void write_requests(const Workload& workload, int32_t vocabulary, const std::filesystem::path& path);

}  // namespace zp
