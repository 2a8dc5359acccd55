// Instructions of the Hopper generation that work behind a thread's back: barriers in shared memory, bulk copies, and
// what orders them with ordinary loads and stores.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "zp/ops/cuda/ptx.cuh"

namespace zp::cuda::ptx {

/// A barrier in shared memory: a phase ends when as many arrived as it was made for, and all bytes expected are there.
__device__ inline void init_barrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// After init_barrier(), before other threads and the copy engine use the barriers.
__device__ inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives once all of this thread's copy_async_16() so far have ended; does not wait for them. Whoever then gives what
/// they copied to wgmma calls fence_async_proxy() first.
__device__ inline void arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and has the phase wait for `bytes` of bulk copies too.
__device__ inline void arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Blocks until the phase of this parity has ended. Of a new barrier, the phase before the first (parity 1) has.
__device__ inline void wait_barrier(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Copies global memory, 16-byte aligned, to the shared memory of every block of the cluster whose bit is set, to the
/// same place in each; the barrier at the same place in each counts the bytes. One thread issues it.
__device__ inline void copy_bulk_to_cluster(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier,
                                            uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(blocks)
      : "memory");
}

/// Copies a box of a three-dimensional tensor map (which lies in a kernel's parameters), from element (x, y, z) on, to
/// shared memory of this block; the barrier counts the bytes of the whole box. One thread issues it.
__device__ inline void copy_box(uint32_t to, const CUtensorMap* map, int32_t x, int32_t y, int32_t z,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

/// This block's number in its cluster.
__device__ inline uint32_t cluster_rank() {
  uint32_t rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// Where in the cluster's shared memory block `rank` has what this block has at `address`.
__device__ inline uint32_t cluster_address(uint32_t address, uint32_t rank) {
  uint32_t result = 0;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}
/// Arrives at a barrier of some block of the cluster. Orders nothing but what has ended, as products waited for have:
/// to release writes to another block would wait for all of the thread's stores.
__device__ inline void arrive_in_cluster(uint32_t cluster_barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(cluster_barrier) : "memory");
}
/// Stores 4 bytes in the shared memory of some block of the cluster, whose barrier, beside them, counts them when they
/// are there.
__device__ inline void store_4_in_cluster(uint32_t cluster_to, int32_t value, uint32_t cluster_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(cluster_to),
               "r"(value), "r"(cluster_barrier)
               : "memory");
}
/// __syncthreads() of the whole cluster.
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/// Makes writes to shared memory that this thread made or has waited for, finished cp.async included, visible to wgmma.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Registers of a warpgroup's threads, once the block has begun: every warp of the warpgroup executes it.
template <uint32_t kRegisters>
__device__ inline void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <uint32_t kRegisters>
__device__ inline void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// A barrier of some of the block's threads, by number (0 is that of __syncthreads()): those that wait, and those that
/// only let them go on.
__device__ inline void sync_threads(uint32_t barrier, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void release_threads(uint32_t barrier, uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace zp::cuda::ptx
