// A folder in memory for targets whose parsers read files.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace zp::fuzz {

/// One folder for the whole run; files are overwritten for each input.
class ScratchFolder final {
 public:
  ScratchFolder() {
    const std::filesystem::path memory = "/dev/shm";
    path_ = (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) /
            ("zp_fuzz_" + std::to_string(::getpid()));
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  std::filesystem::path write(const char* name, const uint8_t* data, size_t size) const {
    std::filesystem::path path = path_ / name;
    if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
      (void)std::fwrite(data, 1, size, file);
      (void)std::fclose(file);
    }
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace zp::fuzz
