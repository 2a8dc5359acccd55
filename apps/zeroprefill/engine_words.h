// What the engine says, in the words of the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zp::app {

/// A message of the library with the fields of EngineConfig that it names replaced by the options that set them:
/// "kv_cache_bytes" becomes "--kv-cache". Fields that are plain words, such as "ranks", stay, and so do parts of paths.
[[nodiscard]] std::string with_option_names(std::string_view message);

/// Why experts live elsewhere than --experts asked for; empty if they do not. `asked` is a value of the option,
/// `actual` what EngineStats::experts says.
[[nodiscard]] std::string why_other_experts(std::string_view asked, std::string_view actual, int32_t ranks);

}  // namespace zp::app
