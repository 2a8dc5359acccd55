// Pinning: the driver finds and locks pages on one thread, about 2 GB/s when it must also clear them (measured). So
// the pages of large allocations are made by several threads first, on huge pages where the kernel gives them, and then
// locked.
#include "zp/device/cuda/pinned_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "zp/base/error.h"
#include "zp/base/host_info.h"
#include "zp/base/math.h"
#include "zp/device/cuda/check.h"

namespace zp::cuda {
namespace {

constexpr size_t kLargeBytes = size_t{256} << 20;
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kPageBytes = 4096;
constexpr int32_t kThreadsMax = 16;

// Writes to every page, so that it exists; the kernel clears it, and to clear it again would double the traffic.
void touch_pages(std::byte* data, size_t size_bytes) {
  const size_t parts = ceil_div(size_bytes, kHugePageBytes);
  std::atomic<size_t> next{0};
  const auto touch = [&] {
    for (size_t part = next++; part < parts; part = next++) {
      const size_t begin = part * kHugePageBytes;
      const size_t end = std::min(begin + kHugePageBytes, size_bytes);
      for (size_t at = begin; at < end; at += kPageBytes) *static_cast<volatile std::byte*>(data + at) = std::byte{0};
    }
  };
  std::vector<std::jthread> threads;
  for (int32_t i = 1; i < std::min(usable_cores(), kThreadsMax); ++i) threads.emplace_back(touch);
  touch();
}

std::byte* allocate_large(size_t size_bytes, int32_t device) {
  // The host itself would promise more than it has, and end the process when it is used.
  const size_t limit_bytes = host_memory().limit_bytes;
  if (size_bytes > limit_bytes)
    fail(ErrorCode::kOutOfMemory, "{} bytes of pinned memory exceed the {} bytes of memory this process may use",
         size_bytes, limit_bytes);
  void* mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail(ErrorCode::kOutOfMemory, "the host refused {} bytes of memory to pin", size_bytes);
  (void)madvise(mapped, size_bytes, MADV_HUGEPAGE);  // a wish: small pages only take longer
  auto* data = static_cast<std::byte*>(mapped);
  touch_pages(data, size_bytes);
  const cudaError_t status = cudaHostRegister(data, size_bytes, cudaHostRegisterPortable);
  if (status != cudaSuccess) {
    (void)munmap(mapped, size_bytes);
    throw_cuda_error(status, "cudaHostRegister", device);
  }
  return data;
}

}  // namespace

std::byte* allocate_pinned(size_t size_bytes, int32_t device) {
  if (size_bytes >= kLargeBytes) return allocate_large(size_bytes, device);
  void* data = nullptr;
  CUDA_CHECK(cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable), device);
  return static_cast<std::byte*>(data);
}

void release_pinned(std::byte* data, size_t size_bytes) noexcept {
  if (size_bytes < kLargeBytes) {
    (void)cudaFreeHost(data);
    return;
  }
  (void)cudaHostUnregister(data);
  (void)munmap(data, size_bytes);
}

}  // namespace zp::cuda
