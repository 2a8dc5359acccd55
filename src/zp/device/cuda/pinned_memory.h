// How the CUDA driver locks host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zp/device/locked_memory.h"

namespace zp::cuda {

/// The current device of a thread that calls it is `device`.
class CudaPageLocker final : public PageLocker {
 public:
  explicit CudaPageLocker(int32_t device) : device_(device) {}

  [[nodiscard]] bool lock(std::byte* data, size_t size_bytes) override;
  void unlock(std::byte* data) noexcept override;
  [[nodiscard]] std::byte* allocate(size_t size_bytes) override;
  void free(std::byte* data) noexcept override;

 private:
  int32_t device_;
};

}  // namespace zp::cuda
