// What the tests of the operations share: tensors in host memory, random inputs, and every implementation there is.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "zp/device/cpu/cpu_device.h"
#include "zp/ops/cpu/cpu_features.h"
#include "zp/ops/factory.h"
#include "zp/ops/ops.h"

namespace zp::test {

/// Unit roundoffs: half the distance from 1 to the next number.
inline constexpr double kRoundF32 = 0x1p-24;
inline constexpr double kRoundBf16 = 0x1p-8;
[[nodiscard]] constexpr double round_of(DType dtype) { return dtype == DType::kBf16 ? kRoundBf16 : kRoundF32; }
/// Products below this may be flushed to zero (AMX, exp).
inline constexpr double kTiny = 1e-36;

/// A tensor in host memory, which the CPU device reads as it is.
class HostTensor final {
 public:
  HostTensor() = default;
  /// Poisoned: every element is NaN (or -1), so that one which is not written shows.
  HostTensor(DType dtype, Shape shape)
      : dtype_(dtype), shape_(shape), bytes_(static_cast<size_t>(shape.elements()) * size_of(dtype), std::byte{0xff}) {}

  [[nodiscard]] TensorView view() { return {bytes_.data(), dtype_, shape_}; }
  [[nodiscard]] ConstTensorView view() const { return {bytes_.data(), dtype_, shape_}; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] int64_t elements() const { return shape_.elements(); }
  /// Bytes of rows [begin, begin + count) of the outermost axis.
  [[nodiscard]] std::span<const std::byte> row_bytes(int64_t begin, int64_t count = 1) const {
    const size_t row = shape_[0] == 0 ? 0 : bytes_.size() / static_cast<size_t>(shape_[0]);
    return std::span(bytes_).subspan(static_cast<size_t>(begin) * row, static_cast<size_t>(count) * row);
  }

  [[nodiscard]] float at(int64_t index) const {
    switch (dtype_) {
      case DType::kBf16: return to_float(view().as<Bf16>()[index]);
      case DType::kF16: return to_float(view().as<F16>()[index]);
      case DType::kI32: return static_cast<float>(view().as<int32_t>()[index]);
      default: return view().as<float>()[index];
    }
  }
  [[nodiscard]] double d(int64_t index) const { return static_cast<double>(at(index)); }
  void set(int64_t index, float value) {
    if (dtype_ == DType::kBf16) {
      view().as<Bf16>()[index] = to_bf16(value);
    } else {
      view().as<float>()[index] = value;
    }
  }
  [[nodiscard]] std::vector<float> floats() const {
    std::vector<float> values(static_cast<size_t>(elements()));
    for (int64_t i = 0; i < elements(); ++i) values[static_cast<size_t>(i)] = at(i);
    return values;
  }
  /// The rows named, in that order.
  [[nodiscard]] HostTensor pick(std::span<const int64_t> rows) const {
    Shape shape = view().rows(0, 0).shape();
    switch (shape.rank()) {
      case 1: shape = {std::ssize(rows)}; break;
      case 2: shape = {std::ssize(rows), shape[1]}; break;
      default: shape = {std::ssize(rows), shape[1], shape[2]}; break;
    }
    HostTensor picked(dtype_, shape);
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto from = row_bytes(rows[r]);
      if (!from.empty()) std::memcpy(picked.bytes_.data() + r * from.size(), from.data(), from.size());
    }
    return picked;
  }

 private:
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

/// Random inputs. Put SCOPED_TRACE(random.seed()) into a test that uses one.
class Random final {
 public:
  explicit Random(uint64_t seed) : seed_(seed), engine_(seed) {}
  [[nodiscard]] std::string seed() const { return "seed " + std::to_string(seed_); }
  /// In [low, high].
  [[nodiscard]] int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  [[nodiscard]] float normal(float scale = 1.0f) { return std::normal_distribution<float>(0.0f, scale)(engine_); }
  /// Normal values of which one in 64 is an outlier, 20 times as large: uniform inputs hide errors.
  [[nodiscard]] HostTensor tensor(DType dtype, Shape shape, float scale = 1.0f) {
    HostTensor tensor(dtype, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, normal(integer(0, 63) == 0 ? 20.0f * scale : scale));
    return tensor;
  }
  [[nodiscard]] std::vector<int64_t> permutation(int64_t count) {
    std::vector<int64_t> order(static_cast<size_t>(count));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::shuffle(order.begin(), order.end(), engine_);
    return order;
  }

 private:
  uint64_t seed_;
  std::mt19937_64 engine_;
};

/// Sizes large enough for every test.
[[nodiscard]] inline OpsLimits test_limits() {
  return {.moe_tokens = 700,
          .experts_per_token = 8,
          .experts = 128,
          .expert = {.hidden = 320, .intermediate = 160},
          .head_rows = 160,
          .vocabulary = 2100};
}

/// One way to compute: which code, in which type, on how many threads.
struct Implementation {
  std::string name;
  DType activation = DType::kF32;
  /// Unset: the reference.
  std::optional<cpu::Isa> isa;
  int32_t threads = 2;
};

/// For GoogleTest's messages.
inline void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }

/// A device, a stream and the operations under test.
class Harness final {
 public:
  explicit Harness(const Implementation& implementation);

  [[nodiscard]] Ops& ops() { return *ops_; }
  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] DType activation() const { return ops_->activation_dtype(); }
  [[nodiscard]] PackedMatrix pack(const HostTensor& weight) {
    const ConstTensorView view = weight.view();
    return ops_->pack_matrix({&view, 1});
  }
  /// Waits for what was issued; a failed act fails the test.
  void finish() { stream_->synchronize(); }

 private:
  cpu::CpuDevice device_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Stream> stream_;
};

/// The reference and the kernels of every instruction set that this machine has, each in f32 and bf16.
[[nodiscard]] std::vector<Implementation> all_implementations();
[[nodiscard]] inline Implementation reference_for(const Implementation& implementation) {
  return {.name = "reference", .activation = implementation.activation, .isa = std::nullopt, .threads = 1};
}

/// Tests that run for each implementation.
class OpsTest : public ::testing::TestWithParam<Implementation> {
 protected:
  [[nodiscard]] DType activation() const { return GetParam().activation; }
  [[nodiscard]] double round_activation() const { return round_of(GetParam().activation); }
};

[[nodiscard]] inline std::string implementation_name(const ::testing::TestParamInfo<Implementation>& info) {
  return info.param.name;
}

#define ZP_FOR_ALL_IMPLEMENTATIONS(suite) \
  INSTANTIATE_TEST_SUITE_P(All, suite, ::testing::ValuesIn(all_implementations()), implementation_name)

}  // namespace zp::test
