// What the tests of the CUDA operations share: a GPU or a reason to skip, tensors in its memory, and the reference.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/ops/harness.h"
#include "zp/base/error.h"
#include "zp/device/cuda/cuda_device.h"
#include "zp/ops/cuda/cuda_ops.h"

namespace zp::test {

/// Sizes large enough for every test on a GPU.
[[nodiscard]] inline OpsLimits gpu_limits() {
  return {.moe_tokens = 5000,
          .experts_per_token = 8,
          .experts = 128,
          .expert = {.hidden = 576, .intermediate = 448},
          .head_dim = 256,
          .linear_k = 8192,
          .head_rows = 64,
          .vocabulary = 70'000};
}

/// A tensor in the GPU's memory.
class GpuTensor final {
 public:
  GpuTensor(Device& device, DType dtype, const Shape& shape)
      : dtype_(dtype),
        shape_(shape),
        buffer_(device.allocate(static_cast<size_t>(shape.elements()) * size_of(dtype))) {}

  [[nodiscard]] TensorView view() { return {buffer_.data(), dtype_, shape_}; }
  [[nodiscard]] ConstTensorView view() const { return {buffer_.data(), dtype_, shape_}; }

 private:
  DType dtype_;
  Shape shape_;
  Buffer buffer_;
};

/// A GPU, a stream and the operations under test.
class Gpu final {
 public:
  explicit Gpu(const cuda::Choices& choices = {})
      : device_(0), ops_(device_, gpu_limits(), choices), stream_(device_.create_stream("test")) {}

  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] cuda::CudaOps& ops() { return ops_; }
  [[nodiscard]] Stream& stream() { return *stream_; }
  void finish() { stream_->synchronize(); }

  [[nodiscard]] GpuTensor upload(const HostTensor& from) {
    GpuTensor to(device_, from.dtype(), from.shape());
    stream_->copy(to.view().data(), from.bytes().data(), from.bytes().size());
    stream_->synchronize();
    return to;
  }
  /// Poisoned, as a HostTensor is.
  [[nodiscard]] GpuTensor poisoned(DType dtype, const Shape& shape) { return upload(HostTensor(dtype, shape)); }
  /// The same for large ones: NaN everywhere, without a copy on the host.
  [[nodiscard]] GpuTensor filled_with_nan(DType dtype, const Shape& shape) {
    GpuTensor to(device_, dtype, shape);
    stream_->fill(to.view().data(), std::byte{0xff}, to.view().size_bytes());
    return to;
  }
  [[nodiscard]] HostTensor download(const GpuTensor& from) { return download_rows(from, 0, from.view().dim(0)); }
  [[nodiscard]] HostTensor download_rows(const GpuTensor& from, int64_t first, int64_t count) {
    const ConstTensorView rows = from.view().rows(first, count);
    HostTensor to(rows.dtype(), rows.shape());
    stream_->copy(to.view().data(), rows.data(), rows.size_bytes());
    stream_->synchronize();
    return to;
  }
  [[nodiscard]] PackedMatrix pack(const HostTensor& weight) {
    const ConstTensorView view = weight.view();
    return ops_.pack_matrix({&view, 1});
  }

 private:
  cuda::CudaDevice device_;
  cuda::CudaOps ops_;
  std::unique_ptr<Stream> stream_;
};

/// Why there is no GPU to test on; empty if there is one.
[[nodiscard]] inline std::string why_no_gpu() {
  try {
    const cuda::CudaDevice device(0);
    return {};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return error.what();
  }
}

/// Tests that need a GPU.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
    gpu_ = std::make_unique<Gpu>();
  }
  [[nodiscard]] Gpu& gpu() { return *gpu_; }

 private:
  std::unique_ptr<Gpu> gpu_;
};

/// The specification, in bf16.
[[nodiscard]] inline Implementation bf16_reference() {
  return {.name = "reference", .activation = DType::kBf16, .isa = std::nullopt, .threads = 1};
}

[[nodiscard]] inline HostTensor absolute(const HostTensor& tensor) {
  HostTensor made(tensor.dtype(), tensor.shape());
  for (int64_t i = 0; i < tensor.elements(); ++i) made.set(i, std::abs(tensor.at(i)));
  return made;
}

/// An expectation of the reference's values, with the bound of element i given by `bound`.
[[nodiscard]] inline Expected expect_near(const HostTensor& reference, const std::function<double(int64_t)>& bound,
                                          double aggregate) {
  Expected expected;
  for (int64_t i = 0; i < reference.elements(); ++i) expected.add(reference.d(i), bound(i));
  expected.aggregate = aggregate;
  return expected;
}

}  // namespace zp::test
