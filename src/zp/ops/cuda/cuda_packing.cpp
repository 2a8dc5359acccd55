// Checks rows and issues the kernels that pack them.
#include "zp/ops/cuda/cuda_packing.h"

#include "zp/base/check.h"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/cuda/pack_kernels.h"

namespace zp::cuda {
namespace {

CudaStream& stream_of(Stream& stream) {
  auto* cuda_stream = dynamic_cast<CudaStream*>(&stream);
  ZP_CHECK(cuda_stream != nullptr, "weights are packed on a stream of another device");
  return *cuda_stream;
}

StoredRowsParams params_of(const StoredRows& rows) {
  ZP_CHECK(rows.dtype == DType::kF32 || rows.dtype == DType::kBf16 || rows.dtype == DType::kF16,
           "cannot pack weights of type {}", to_string(rows.dtype));
  ZP_CHECK(rows.stride >= rows.columns, "rows of {} elements are {} apart", rows.columns, rows.stride);
  return {.data = rows.data, .dtype = rows.dtype, .rows = rows.rows, .columns = rows.columns, .stride = rows.stride};
}

void convert(CudaStream& stream, const StoredRows& rows, void* out, bool out_is_f32) {
  if (rows.rows == 0 || rows.columns == 0) return;
  stream.act("convert_rows", [&] {
    launch_convert_rows({.rows = params_of(rows), .out = out, .out_is_f32 = out_is_f32}, stream.get());
  });
}

}  // namespace

PackedMatrix CudaPacking::make_matrix(int64_t n, int64_t k) {
  PackedMatrix matrix;
  matrix.n = n;
  matrix.k = k;
  matrix.buffer = device_.allocate(static_cast<size_t>(n * k) * sizeof(Bf16));
  return matrix;
}

void CudaPacking::pack_rows(Stream& stream, const StoredRows& rows, const MatrixRowsArgs& args) {
  ZP_CHECK(rows.columns == args.k && args.first >= 0 && args.first + rows.rows <= args.n,
           "rows [{}, {}) of {} elements are none of a matrix of {} x {}", args.first, args.first + rows.rows,
           rows.columns, args.n, args.k);
  convert(stream_of(stream), rows, args.matrix + static_cast<size_t>(args.first * args.k) * sizeof(Bf16), false);
}

void CudaPacking::convert_rows(Stream& stream, const StoredRows& rows, const TensorView& out) {
  ZP_CHECK(out.elements() == rows.rows * rows.columns, "{} x {} elements are converted to {}", rows.rows, rows.columns,
           out.elements());
  ZP_CHECK(out.dtype() == DType::kF32 || out.dtype() == DType::kBf16, "cannot convert to {}", to_string(out.dtype()));
  convert(stream_of(stream), rows, out.data(), out.dtype() == DType::kF32);
}

void CudaPacking::begin_expert(Stream& stream, const ExpertSize& size, std::byte* blob) {
  // Rows fill all of their tiles' columns; only rows may be missing.
  if (size.intermediate % kGateUpFeatures == 0 && size.hidden % kTileN == 0) return;
  stream.fill(blob, std::byte{0}, ExpertLayout(size.hidden, size.intermediate).blob_bytes());
}

void CudaPacking::pack_expert_rows(Stream& stream, const StoredRows& rows, const ExpertRowsArgs& args) {
  const bool down = args.matrix == ExpertMatrix::kDown;
  const int64_t matrix_rows = down ? args.size.hidden : args.size.intermediate;
  ZP_CHECK(rows.columns == (down ? args.size.intermediate : args.size.hidden) && args.first >= 0 &&
               args.first + rows.rows <= matrix_rows,
           "rows [{}, {}) of {} elements are none of an expert of {} x {}", args.first, args.first + rows.rows,
           rows.columns, args.size.hidden, args.size.intermediate);
  if (rows.rows == 0) return;
  const ExpertLayout layout(args.size.hidden, args.size.intermediate);
  CudaStream& on = stream_of(stream);
  on.act("pack_expert_rows", [&] {
    launch_pack_expert_rows({.rows = params_of(rows),
                             .tiles = args.blob + (down ? layout.down_begin() : 0),
                             .first = args.first,
                             .k_tiles = down ? layout.down_k_tiles : layout.gate_up_k_tiles,
                             .row_order = down                               ? kDownOrder
                                          : args.matrix == ExpertMatrix::kUp ? kUpOrder
                                                                             : kGateOrder},
                            on.get());
  });
}

}  // namespace zp::cuda
