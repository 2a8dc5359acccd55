// A read-only memory-mapped file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace zp {

/// Maps a whole file. Reading the bytes is thread-safe. A file that is cut short by somebody else while it is mapped
/// raises SIGBUS; sizes are checked against the file when it is opened.
class MappedFile final {
 public:
  MappedFile() = default;
  /// Throws kNotFound or kIo, naming the path and the system's reason.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_bytes_}; }

  /// Tells the system that these bytes will not be read again soon, so that they leave memory. A hint.
  void discard(std::span<const std::byte> bytes) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace zp
