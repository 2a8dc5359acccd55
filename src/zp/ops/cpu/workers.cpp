// Shares work out to threads.
#include "zp/ops/cpu/workers.h"

#include <algorithm>

namespace zp::cpu {
namespace {
// Waking a thread costs some microseconds, in which one core multiplies about this often.
constexpr int64_t kSerialWork = 100'000;
}  // namespace

Workers::Workers(Device& device, ThreadPool& pool, Isa isa, DType activation)
    : pool_(pool),
      kernels_(kernels_of(isa)),
      gemm_(activation == DType::kBf16 ? kernels_.gemm_bf16 : kernels_.gemm_f32),
      attention_(activation == DType::kBf16 ? kernels_.attention_bf16 : kernels_.attention_f32),
      layout_{activation},
      scratch_(device.allocate(static_cast<size_t>(pool.threads()) * ThreadScratch::kBytes)) {}

ThreadScratch Workers::scratch(int32_t thread) const {
  std::byte* begin = scratch_.data() + static_cast<size_t>(thread) * ThreadScratch::kBytes;
  std::byte* product = begin + ThreadScratch::kRowsBytes;
  return {.rows = begin,
          .product = reinterpret_cast<float*>(product),
          .logits = reinterpret_cast<float*>(product + ThreadScratch::kProductBytes)};
}

void Workers::run(int64_t count, int64_t work, const std::function<void(int64_t, int32_t)>& body) {
  if (work >= kSerialWork) {
    pool_.parallel_for(count, body);
  } else {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
  }
}

void Workers::run_rows(int64_t rows, int64_t row_work, const std::function<void(int64_t)>& body) {
  const int64_t group = std::max<int64_t>(1, kSerialWork / std::max<int64_t>(1, 4 * row_work));
  run(ceil_div(rows, group), rows * row_work, [&](int64_t index, int32_t /*thread*/) {
    for (int64_t row = index * group; row < std::min(rows, (index + 1) * group); ++row) body(row);
  });
}

}  // namespace zp::cpu
