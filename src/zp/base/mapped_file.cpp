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

// Closes a descriptor at the end of the scope; the mapping outlives it.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
    fail(code, "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::kIo, "cannot read {}: it is not a regular file", path.string());
  size_bytes_ = static_cast<size_t>(status.st_size);
  if (size_bytes_ == 0) return;
  void* data = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) fail(ErrorCode::kIo, "cannot map {}: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

void MappedFile::discard(std::span<const std::byte> bytes) const noexcept {
  // Only whole pages inside the range may go: neighbours may still be wanted.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace zp
