// How large numbers are written for people.
#pragma once

#include <cstdint>
#include <string>

namespace zp {

/// "1.50 GiB", "640 B".
[[nodiscard]] std::string human_bytes(uint64_t bytes);
/// "30.50 G", "117".
[[nodiscard]] std::string human_count(int64_t count);

}  // namespace zp
