// Linear layers.
#include "zp/ops/cpu/gemm.h"

namespace zp::cpu {

int64_t PackedRows::rows_max(const Workers& workers, int64_t k) {
  const int64_t tile = workers.gemm().row_tile;
  const int64_t tile_bytes = workers.gemm().tile_bytes(workers.layout().padded_k(k));
  const int64_t fitting = static_cast<int64_t>(ThreadScratch::kRowsBytes) / std::max<int64_t>(1, tile_bytes);
  ZP_CHECK(fitting >= 1, "rows of {} elements do not fit the scratch memory of {} bytes", k, ThreadScratch::kRowsBytes);
  return std::min(fitting, Workers::kChunkRows / tile) * tile;
}

void linear(Workers& workers, const LinearArgs& args) {
  const PackedMatrix& weight = *args.weight;
  const int64_t tokens = args.x.dim(0);
  const size_t row_bytes = static_cast<size_t>(weight.k) * size_of(args.x.dtype());
  const size_t panel_bytes = workers.layout().panel_bytes(weight.k);
  const size_t out_size = size_of(args.out.dtype());
  const ProductSplit split(tokens, panel_count(weight.n), PackedRows::rows_max(workers, weight.k),
                           int64_t{4} * workers.threads());
  workers.run(split.count(), tokens * weight.n * weight.k, [&](int64_t index, int32_t thread) {
    const ProductItem item = split[index];
    PackedRows rows(workers, workers.scratch(thread), weight.k);
    for (int64_t r = 0; r < item.rows; ++r) rows.add(args.x.data() + static_cast<size_t>(item.row + r) * row_bytes);
    rows.pack();
    for (int64_t panel = item.panel; panel < item.panel + item.panels; ++panel) {
      const float* product = rows.multiply(weight.buffer.data() + static_cast<size_t>(panel) * panel_bytes);
      const int64_t column = panel * kPanelColumns;
      const int64_t columns = std::min(kPanelColumns, weight.n - column);
      if (args.add) {
        float* sums = args.out.as<float>() + item.row * weight.n + column;
        for (int64_t r = 0; r < item.rows; ++r)
          workers.kernels().add(sums + r * weight.n, product + r * kPanelColumns, columns);
        continue;
      }
      std::byte* out = args.out.data() + static_cast<size_t>(item.row * weight.n + column) * out_size;
      workers.kernels().store_product({.product = product,
                                       .rows = item.rows,
                                       .columns = columns,
                                       .out = {out, args.out.dtype()},
                                       .out_stride = weight.n});
    }
  });
}

}  // namespace zp::cpu
