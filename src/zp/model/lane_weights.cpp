// Cuts weights into jobs for lanes.
#include "zp/model/lane_weights.h"

#include <algorithm>

namespace zp {

// A job for each piece of a part.
void LaneWeights::add_jobs(const MatrixPart& part, const Pack& pack) {
  const ConstTensorView stored = checkpoint_.tensor(part.name, part.whole);
  const auto rows_max = static_cast<int32_t>(std::min<int64_t>(
      INT32_MAX / 2, lanes_.rows_of_piece(static_cast<size_t>(row_elements(part)) * size_of(stored.dtype()))));
  for (int32_t row = 0; row < part.rows.count; row += rows_max) {
    const IndexRange rows{row, std::min(rows_max, part.rows.count - row)};
    jobs_.emplace_back([this, part, rows, pack](LoadLanes::Lane& lane) {
      lane.bring(checkpoint_, part, rows,
                 [&](const StoredRows& piece, int64_t first) { pack(lane.stream(), piece, first); });
    });
  }
}

Tensor LaneWeights::tensor(const std::string& name, const Shape& shape, DType dtype) {
  Tensor tensor(device_, dtype, shape);
  MatrixPart part{name, shape, {0, static_cast<int32_t>(shape[0])}, {}};
  part.columns.count = static_cast<int32_t>(row_elements(part));
  std::byte* data = tensor.view().data();
  add_jobs(part, [packing = &lanes_.packing(), data, dtype](Stream& stream, const StoredRows& rows, int64_t first) {
    std::byte* to = data + static_cast<size_t>(first * rows.columns) * size_of(dtype);
    packing->convert_rows(stream, rows, {to, dtype, {rows.rows, rows.columns}});
  });
  return tensor;
}

PackedMatrix LaneWeights::matrix(std::span<const MatrixPart> parts) {
  int64_t n = 0;
  for (const MatrixPart& part : parts) n += part.rows.count;
  PackedMatrix matrix = lanes_.packing().make_matrix(n, parts.front().columns.count);
  MatrixRowsArgs args{.matrix = matrix.buffer.data(), .n = n, .k = matrix.k};
  for (const MatrixPart& part : parts) {
    add_jobs(part, [packing = &lanes_.packing(), args](Stream& stream, const StoredRows& rows, int64_t first) {
      MatrixRowsArgs here = args;
      here.first += first;
      packing->pack_rows(stream, rows, here);
    });
    args.first += part.rows.count;
  }
  return matrix;
}

void LaneWeights::finish() {
  lanes_.run(std::ssize(jobs_), [&](int64_t i, LoadLanes::Lane& lane) { jobs_[static_cast<size_t>(i)](lane); });
  jobs_.clear();
}

}  // namespace zp
