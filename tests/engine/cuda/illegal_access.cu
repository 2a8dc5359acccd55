#include "tests/engine/cuda/illegal_access.h"

#include <cuda_runtime.h>

namespace zp::test {
namespace {

__global__ void write_at(int* address) { *address = 1; }

}  // namespace

void write_to_an_illegal_address() {
  write_at<<<1, 1>>>(reinterpret_cast<int*>(0x10));  // NOLINT: that is the point
  (void)cudaDeviceSynchronize();
}

}  // namespace zp::test
