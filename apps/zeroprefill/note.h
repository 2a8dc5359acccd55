// What the command line tells people, on stderr.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace zp::app {

/// Writes to stderr. A stderr that cannot be written to (a full disk, a closed terminal) must not end a run: unlike
/// fmt::print, this never throws.
template <typename... Args>
void note(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    const std::string text = fmt::format(format, std::forward<Args>(args)...);
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
    (void)std::fflush(stderr);
  } catch (...) {
    // Out of memory: there is nobody left to tell.
  }
}

}  // namespace zp::app
