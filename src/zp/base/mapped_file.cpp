// Maps files with mmap.
#include "zp/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "zp/base/error.h"

namespace zp {
namespace {

// MADV_POPULATE_READ (Linux 5.14), which older headers lack.
constexpr int kPopulateRead = 22;

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
    fail(code, "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0)
      fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail(ErrorCode::kIo, "cannot read {}: it is not a regular file", path.string());
    size_bytes_ = static_cast<size_t>(status.st_size);
    if (size_bytes_ == 0) return;
    void* data = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
    if (data == MAP_FAILED) fail(ErrorCode::kIo, "cannot map {}: {}", path.string(), std::strerror(errno));
    data_ = static_cast<const std::byte*>(data);
  } catch (...) {
    close();
    throw;
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

MappedFile::~MappedFile() { close(); }

void MappedFile::close() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
  data_ = nullptr;
  descriptor_ = -1;
}

void MappedFile::read(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::kIo, "cannot read {}: {}", path_.string(), std::strerror(errno));
    if (got == 0)
      fail(ErrorCode::kCorrupt, "{} ends at byte {}; it had {} when it was opened", path_.string(), offset,
           size_bytes_);
    offset += static_cast<uint64_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
}

void MappedFile::fetch(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size());
  if (::madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateRead) == 0) return;
  if (errno == EFAULT)
    fail(ErrorCode::kCorrupt, "{} has become shorter than the {} bytes it had when it was opened, or cannot be read",
         path_.string(), size_bytes_);
  if (errno == EIO) fail(ErrorCode::kIo, "cannot read {}: {}", path_.string(), std::strerror(errno));
}

void MappedFile::discard(std::span<const std::byte> bytes) const noexcept {
  // Only whole pages inside the range may go: neighbours may still be wanted.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace zp
