// Instructions that CUDA C++ has no words for. All inline assembly lives in the ptx*.cuh files.
#pragma once

#include <cstdint>

namespace zp::cuda::ptx {

/// An address in shared memory as instructions take it.
__device__ inline uint32_t shared_address(const void* data) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(data));
}

/// Stores 16 bytes to shared memory, at an address aligned to them.
__device__ inline void store_16(uint32_t to, uint4 data) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(data.x), "r"(data.y), "r"(data.z), "r"(data.w)
               : "memory");
}

__device__ inline int32_t load_4(uint32_t from) {
  int32_t value = 0;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}

/// Four 8x8 matrices of 16-bit elements; lane 8i + r gives the address of row r of matrix i.
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// d += a * b: a is 16x16 row-major, b 16x8, bf16; d is 16x8 f32.
__device__ inline void multiply_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Copies 16 bytes to shared memory behind the thread's back; zeros instead unless `valid`.
__device__ inline void copy_async_16(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

/// 2^x to about two units of the last place; 0 for -infinity.
__device__ inline float exp2_fast(float x) {
  float result = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// 1 / x to about one unit of the last place.
__device__ inline float reciprocal_fast(float x) {
  float result = 0;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace zp::cuda::ptx
