// What lies in a folder.
#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

namespace zp {

/// Whether `folder` has an entry `name`; never if it has no name itself or cannot be looked into. Throws nothing of the
/// file system.
[[nodiscard]] inline bool has_entry(const std::filesystem::path& folder, std::string_view name) {
  std::error_code ignored;
  return !folder.empty() && std::filesystem::exists(folder / name, ignored);
}

}  // namespace zp
