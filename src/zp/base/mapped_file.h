// A read-only memory-mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace zp {

/// Maps a whole file. Reading is thread-safe. A file that is cut short by somebody else while it is mapped raises
/// SIGBUS where its bytes() are touched, and is an error in read() and fetch(); sizes are checked when it is opened.
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
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Copies the file's bytes from `offset` on. Unlike bytes() it touches no page of the mapping, which in large pieces
  /// is the faster way into other memory. Throws kIo with the path and the reason, kCorrupt if the file has become too
  /// short.
  void read(uint64_t offset, std::span<std::byte> into) const;
  /// Brings these of its bytes() into memory at once. Throws as read() does where the system can say; a hint elsewhere.
  void fetch(std::span<const std::byte> bytes) const;

  /// Tells the system that these bytes will not be read again soon, so that they leave memory. A hint.
  void discard(std::span<const std::byte> bytes) const noexcept;

 private:
  void close() noexcept;

  std::filesystem::path path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace zp
