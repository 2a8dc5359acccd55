// Packing on the GPU gives the bytes that packing on the host gives, for every type and any cutting into rows.
#include <cstring>

#include "tests/ops/cuda/gpu.h"
#include "zp/ops/cuda/expert_layout.h"
#include "zp/ops/cuda/expert_pack.h"
#include "zp/tensor/convert.h"

namespace zp::test {
namespace {

class CudaPacking : public GpuTest {
 protected:
  [[nodiscard]] DevicePacking& packing() { return *gpu().ops().device_packing(); }
  [[nodiscard]] std::vector<std::byte> download(const Buffer& from) {
    std::vector<std::byte> bytes(from.size_bytes());
    gpu().stream().copy(bytes.data(), from.data(), bytes.size());
    gpu().finish();
    return bytes;
  }
  [[nodiscard]] Buffer poisoned(size_t size_bytes) {
    Buffer buffer = gpu().device().allocate(size_bytes);
    gpu().stream().fill(buffer.data(), std::byte{0xee}, size_bytes);
    return buffer;
  }
};

// Any bits: NaN of every kind, infinities, subnormal numbers.
HostTensor any_bits(Random& random, DType type, const Shape& shape) {
  HostTensor tensor(type, shape);
  for (size_t i = 0; i < tensor.bytes().size(); ++i)
    tensor.view().data()[i] = static_cast<std::byte>(random.integer(0, 255));
  return tensor;
}

// Calls `use(first, count)` for parts of [0, rows) of random sizes.
template <typename Use>
void cut(Random& random, int64_t rows, Use&& use) {
  for (int64_t first = 0; first < rows;) {
    const int64_t count = std::min<int64_t>(rows - first, random.integer(1, 97));
    use(first, count);
    first += count;
  }
}

StoredRows rows_of(const ConstTensorView& matrix, int64_t first, int64_t count) {
  const auto row_bytes = static_cast<size_t>(matrix.dim(1)) * size_of(matrix.dtype());
  return {.data = matrix.data() + static_cast<size_t>(first) * row_bytes,
          .dtype = matrix.dtype(),
          .rows = count,
          .columns = matrix.dim(1),
          .stride = matrix.dim(1)};
}

TEST_F(CudaPacking, AnExpertHasTheBytesThatTheHostMakes) {
  Random random(1);
  SCOPED_TRACE(random.seed());
  for (const DType type : {DType::kBf16, DType::kF16, DType::kF32})
    for (const ExpertSize& size :
         {ExpertSize{8, 1}, ExpertSize{256, 128}, ExpertSize{264, 130}, ExpertSize{72, 300}, ExpertSize{2048, 768}}) {
      const HostTensor matrices[] = {any_bits(random, type, {size.intermediate, size.hidden}),
                                     any_bits(random, type, {size.intermediate, size.hidden}),
                                     any_bits(random, type, {size.hidden, size.intermediate})};
      std::vector<std::byte> expected(gpu().ops().expert_blob_bytes(size));
      cuda::pack_expert(matrices[0].view(), matrices[1].view(), matrices[2].view(), expected);
      const Buffer blob = poisoned(expected.size());
      packing().begin_expert(gpu().stream(), size, blob.data());
      std::vector<GpuTensor> uploaded;
      for (const HostTensor& matrix : matrices) uploaded.push_back(gpu().upload(matrix));
      for (size_t m = 0; m < 3; ++m)
        cut(random, matrices[m].shape()[0], [&](int64_t first, int64_t count) {
          const GpuTensor& matrix = uploaded[m];
          packing().pack_expert_rows(
              gpu().stream(), rows_of(matrix.view(), first, count),
              {.size = size, .blob = blob.data(), .matrix = static_cast<ExpertMatrix>(m), .first = first});
        });
      EXPECT_TRUE(download(blob) == expected) << to_string(type) << ", " << size.hidden << " x " << size.intermediate;
    }
}

TEST_F(CudaPacking, AMatrixAndATensorHaveTheElementsThatTheHostConverts) {
  Random random(2);
  SCOPED_TRACE(random.seed());
  for (const DType type : {DType::kBf16, DType::kF16, DType::kF32})
    for (const Shape& shape : {Shape{1, 1}, Shape{5, 7}, Shape{64, 64}, Shape{130, 2048}, Shape{1000, 3}}) {
      const HostTensor stored = any_bits(random, type, shape);
      const GpuTensor uploaded = gpu().upload(stored);
      const GpuTensor& on_gpu = uploaded;
      for (const DType to : {DType::kBf16, DType::kF32}) {
        std::vector<std::byte> expected(static_cast<size_t>(shape.elements()) * size_of(to));
        convert_elements(stored.view(), to, expected);
        const Buffer converted = poisoned(expected.size());
        packing().convert_rows(gpu().stream(), rows_of(on_gpu.view(), 0, shape[0]), {converted.data(), to, shape});
        EXPECT_TRUE(download(converted) == expected) << to_string(type) << " to " << to_string(to);
      }
      const ConstTensorView view = stored.view();
      const PackedMatrix expected = gpu().ops().pack_matrix({&view, 1});
      const PackedMatrix matrix = packing().make_matrix(shape[0], shape[1]);
      ASSERT_EQ(matrix.buffer.size_bytes(), expected.buffer.size_bytes());
      cut(random, shape[0], [&](int64_t first, int64_t count) {
        packing().pack_rows(gpu().stream(), rows_of(on_gpu.view(), first, count),
                            {.matrix = matrix.buffer.data(), .n = matrix.n, .k = matrix.k, .first = first});
      });
      EXPECT_TRUE(download(matrix.buffer) == download(expected.buffer)) << shape.to_string();
    }
}

TEST_F(CudaPacking, ColumnsOfWiderRowsArePickedOut) {
  Random random(3);
  const HostTensor stored = any_bits(random, DType::kBf16, {33, 96});
  const GpuTensor uploaded = gpu().upload(stored);
  const GpuTensor& on_gpu = uploaded;
  constexpr int64_t kBegin = 13;  // not aligned to 16 bytes
  constexpr int64_t kColumns = 50;
  StoredRows rows = rows_of(on_gpu.view(), 0, 33);
  rows.data += kBegin * 2;
  rows.columns = kColumns;
  const Buffer converted = poisoned(33 * kColumns * 2);
  packing().convert_rows(gpu().stream(), rows, {converted.data(), DType::kBf16, {33, kColumns}});
  const std::vector<std::byte> found = download(converted);
  for (int64_t r = 0; r < 33; ++r)
    EXPECT_EQ(std::memcmp(found.data() + r * kColumns * 2, stored.bytes().data() + (r * 96 + kBegin) * 2, kColumns * 2),
              0)
        << r;
}

}  // namespace
}  // namespace zp::test
