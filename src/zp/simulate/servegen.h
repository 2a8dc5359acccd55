// Lengths of requests from ServeGen's data (https://github.com/alibaba/ServeGen): of one client, by windows of time.
#pragma once

#include <filesystem>

#include "zp/simulate/workload.h"

namespace zp {

/// Requests that stand for each window of time.
inline constexpr int32_t kServeGenRequests = 1000;

/// Reads a client's dataset file: a mapping from windows to distributions of lengths, "{length: probability, ...}" as
/// text under input_tokens. Each window becomes kServeGenRequests requests whose lengths have its distribution, in an
/// order without pattern; they share nothing and arrive at once, since the file has no times. Throws kCorrupt, naming
/// the file, the window and what is wrong.
[[nodiscard]] Workload read_servegen(const std::filesystem::path& path);

}  // namespace zp
