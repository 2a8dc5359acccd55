// Works in another folder for a while.
#pragma once

#include <filesystem>
#include <system_error>

namespace zp::test {

/// Makes `folder` the current one of the whole process, until it goes.
class CurrentFolder final {
 public:
  explicit CurrentFolder(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~CurrentFolder() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
  }
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace zp::test
