// What every CPU operation computes with: the device's threads, their scratch memory, and the kernels of the machine.
#pragma once

#include <cstdint>
#include <functional>

#include "zp/base/thread_pool.h"
#include "zp/device/device.h"
#include "zp/ops/cpu/kernels/kernels.h"
#include "zp/ops/cpu/weights.h"

namespace zp::cpu {

/// One thread's scratch memory, overwritten by every item of work.
struct ThreadScratch {
  std::byte* rows = nullptr;  // kRowsBytes: packed rows of a product, or the strips of attention
  float* product = nullptr;   // [kProductRows, 32]: rows times one panel
  float* logits = nullptr;    // [kLogitRows, 512]: rows times one chunk of the vocabulary

  static constexpr int64_t kProductRows = 160;
  static constexpr int64_t kLogitRows = 64;
  static constexpr size_t kRowsBytes = size_t{4} << 20;
  static constexpr size_t kProductBytes = kProductRows * kPanelColumns * sizeof(float);
  static constexpr size_t kLogitBytes = kLogitRows * 512 * sizeof(float);
  static constexpr size_t kBytes = kRowsBytes + kProductBytes + kLogitBytes;
};

/// Owned by one Ops object. Used by one stream's thread at a time, which shares its work out to the pool.
class Workers final {
 public:
  /// The most rows an item of a product has. The product in scratch has room for a last partial tile besides.
  static constexpr int64_t kChunkRows = 128;
  static_assert(kChunkRows + 32 <= ThreadScratch::kProductRows);

  Workers(Device& device, ThreadPool& pool, Isa isa, DType activation);

  [[nodiscard]] const Kernels& kernels() const noexcept { return kernels_; }
  /// Products of rows of type A with weights of type A.
  [[nodiscard]] const GemmKernels& gemm() const noexcept { return gemm_; }
  /// Attention over keys and values of type A.
  [[nodiscard]] const AttentionKernels& attention() const noexcept { return attention_; }
  [[nodiscard]] const PanelLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] DType activation() const noexcept { return layout_.dtype; }
  [[nodiscard]] int32_t threads() const noexcept { return pool_.threads(); }
  [[nodiscard]] ThreadScratch scratch(int32_t thread) const;

  /// Runs body(index, thread) for each index. `work` is about the number of multiplications in all: what is too
  /// small to be worth waking threads for runs on the calling one.
  void run(int64_t count, int64_t work, const std::function<void(int64_t index, int32_t thread)>& body);
  /// Runs body(row) for each row of about `row_work` multiplications, in groups of neighbours.
  void run_rows(int64_t rows, int64_t row_work, const std::function<void(int64_t row)>& body);

 private:
  ThreadPool& pool_;
  const Kernels& kernels_;
  GemmKernels gemm_;
  AttentionKernels attention_;
  PanelLayout layout_;
  Buffer scratch_;  // [threads, ThreadScratch::kBytes]
};

}  // namespace zp::cpu
