// Host memory that the GPU's copy engines reach.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zp::cuda {

/// Page-locked memory, aligned to 256 bytes. The current device is `device`. Throws kOutOfMemory with the numbers.
[[nodiscard]] std::byte* allocate_pinned(size_t size_bytes, int32_t device);
void release_pinned(std::byte* data, size_t size_bytes) noexcept;

}  // namespace zp::cuda
