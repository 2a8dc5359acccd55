// Drawn weights: the reference's bits, and the blobs that packing makes.
#include "tests/ops/cuda/gpu.h"

namespace zp::test {
namespace {

class CudaDrawn : public GpuTest {
 protected:
  static HostTensor drawn_by_reference(const DrawnMatrix& matrix, DType dtype) {
    Harness reference(bf16_reference());
    HostTensor out(dtype, {matrix.rows, matrix.columns});
    reference.ops().draw(reference.stream(), {.matrix = matrix, .out = out.view()});
    reference.finish();
    return out;
  }
  HostTensor drawn(const DrawnMatrix& matrix, DType dtype) {
    GpuTensor out = gpu().poisoned(dtype, {matrix.rows, matrix.columns});
    gpu().ops().draw(gpu().stream(), {.matrix = matrix, .out = out.view()});
    return gpu().download(out);
  }
  HostTensor bytes_of(const std::byte* device, size_t size_bytes) {
    HostTensor to(DType::kU8, {static_cast<int64_t>(size_bytes)});
    gpu().stream().copy(to.view().data(), device, size_bytes);
    gpu().finish();
    return to;
  }
};

TEST_F(CudaDrawn, HasTheReferencesBits) {
  for (const DType dtype : {DType::kBf16, DType::kF32})
    for (const int64_t columns : {1, 7, 8, 53, 64, 2048})
      for (const int64_t rows : {0, 1, 37})
        for (const int64_t column : {0, 3, 8}) {
          SCOPED_TRACE(columns);
          const DrawnMatrix matrix{.key = 0x123456789ABCDEF0U,
                                   .unit = drawn_unit(0.02),
                                   .rows = rows,
                                   .columns = columns,
                                   .row = 5,
                                   .column = column};
          EXPECT_TRUE(same_bytes(drawn(matrix, dtype).bytes(), drawn_by_reference(matrix, dtype).bytes()));
        }
}

TEST_F(CudaDrawn, MatricesAreThoseThatPackingMakes) {
  const std::vector<DrawnMatrix> parts = {{.key = 1, .unit = drawn_unit(0.02), .rows = 33, .columns = 72},
                                          {.key = 2, .unit = drawn_unit(0.02), .rows = 5, .columns = 72}};
  std::vector<HostTensor> elements;
  std::vector<ConstTensorView> views;
  for (const DrawnMatrix& part : parts) elements.push_back(drawn_by_reference(part, DType::kBf16));
  for (const HostTensor& tensor : elements) views.push_back(tensor.view());
  const PackedMatrix packed = gpu().ops().pack_matrix(views);
  const PackedMatrix made = gpu().ops().draw_matrix(parts);
  EXPECT_EQ(made.n, 38);
  EXPECT_EQ(made.k, 72);
  EXPECT_TRUE(same_bytes(bytes_of(made.buffer.data(), made.buffer.size_bytes()).bytes(),
                         bytes_of(packed.buffer.data(), packed.buffer.size_bytes()).bytes()));
}

TEST_F(CudaDrawn, ExpertsAreThoseThatPackingMakes) {
  struct Size {
    int64_t hidden;
    int64_t intermediate;
    int64_t begin;  // of the slice of inner features
  };
  for (const Size& size : {Size{64, 128, 0}, Size{72, 40, 8}, Size{576, 448, 0}, Size{256, 129, 3}}) {
    SCOPED_TRACE(size.hidden);
    const float unit = drawn_unit(0.02);
    const DrawnExpert expert{
        .gate = {.key = 1, .unit = unit, .rows = size.intermediate, .columns = size.hidden, .row = size.begin},
        .up = {.key = 2, .unit = unit, .rows = size.intermediate, .columns = size.hidden, .row = size.begin},
        .down = {.key = 3, .unit = unit, .rows = size.hidden, .columns = size.intermediate, .column = size.begin}};
    const HostTensor gate = drawn_by_reference(expert.gate, DType::kBf16);
    const HostTensor up = drawn_by_reference(expert.up, DType::kBf16);
    const HostTensor down = drawn_by_reference(expert.down, DType::kBf16);
    const size_t size_bytes = gpu().ops().expert_blob_bytes({size.hidden, size.intermediate});
    const Buffer packed = gpu().device().allocate(size_bytes, MemoryKind::kPinnedHost);
    gpu().ops().pack_expert(gate.view(), up.view(), down.view(), packed.bytes());
    const Buffer made = gpu().device().allocate(size_bytes);
    gpu().stream().fill(made.data(), std::byte{0xff}, size_bytes);
    gpu().ops().draw_expert(gpu().stream(), expert, made.data());
    EXPECT_TRUE(same_bytes(bytes_of(made.data(), size_bytes).bytes(), packed.bytes()));
  }
}

}  // namespace
}  // namespace zp::test
