// What the measurements of operations on a GPU share: a GPU with noise in its memory, timing and reports.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/model_sizes.h"
#include "bench/result_lines.h"
#include "zp/device/cuda/cuda_device.h"
#include "zp/ops/ops.h"
#include "zp/tensor/tensor.h"

namespace zp::bench {

/// Under load a chip takes some tenths of a second to find the clock that its power allows.
inline constexpr double kWarmUpMs = 300;
/// Of the noise; what else is random has seeds that follow.
inline constexpr uint32_t kSeed = 1;
inline constexpr int64_t kNoiseElements = int64_t{32} << 20;

struct BenchOptions {
  int32_t device = 0;
  std::string only;  ///< the beginning of the names of what is measured
  std::string json;
  std::string commit;
  std::string command;
};

/// A GPU, a stream, and where results go.
class Bench final {
 public:
  explicit Bench(const BenchOptions& options)
      : results_(options.json, options.commit),
        device_(options.device),
        stream_(device_.create_stream("bench")),
        only_(options.only),
        facts_{.command = options.command, .commit = options.commit, .device = device_.description(), .seed = kSeed} {
    fmt::print("{}\n{:<44} {:>10} {:>12} {:>10}\n", device_.description(), "what", "ms", "rate", "unit");
    std::mt19937 engine(kSeed);
    std::normal_distribution<float> normal(0.0f, 0.5f);
    std::vector<Bf16> noise(static_cast<size_t>(kNoiseElements));
    for (Bf16& value : noise) value = to_bf16(normal(engine));
    noise_ = device_.allocate(noise.size() * sizeof(Bf16));
    stream_->copy(noise_.data(), noise.data(), noise_.size_bytes());
    stream_->synchronize();
  }

  [[nodiscard]] cuda::CudaDevice& device() { return device_; }
  [[nodiscard]] cuda::CudaStream& stream() { return dynamic_cast<cuda::CudaStream&>(*stream_); }
  [[nodiscard]] bool wants(const std::string& name) const { return name.starts_with(only_) || only_.starts_with(name); }

  void fill_with_noise(const Buffer& buffer) {
    for (size_t begin = 0; begin < buffer.size_bytes(); begin += noise_.size_bytes())
      stream_->copy(buffer.data() + begin, noise_.data(), std::min(noise_.size_bytes(), buffer.size_bytes() - begin));
  }
  /// bf16: normal values. f32: normal bf16 values in pairs, which are normal too, as numbers.
  [[nodiscard]] Tensor noise(DType dtype, const Shape& shape) {
    Tensor tensor(device_, dtype, shape);
    const size_t size_bytes = tensor.view().size_bytes();
    for (size_t begin = 0; begin < size_bytes; begin += noise_.size_bytes())
      stream_->copy(tensor.view().data() + begin, noise_.data(), std::min(noise_.size_bytes(), size_bytes - begin));
    return tensor;
  }
  template <typename T>
  [[nodiscard]] Tensor upload(const std::vector<T>& values, const Shape& shape) {
    Tensor tensor(device_, kDTypeOf<T>, shape);
    stream_->copy(tensor.view().data(), values.data(), values.size() * sizeof(T));
    stream_->synchronize();
    return tensor;
  }
  [[nodiscard]] PackedMatrix matrix(int64_t n, int64_t k) {
    PackedMatrix packed{device_.allocate(static_cast<size_t>(n * k) * 2), n, k};
    fill_with_noise(packed.buffer);
    return packed;
  }

  /// Median milliseconds of one run.
  double time(const std::function<void()>& run) {
    run();
    int64_t runs = 1;
    const double once = sample(run, 1);
    if (once < 20) runs = std::clamp<int64_t>(static_cast<int64_t>(20 / std::max(once, 1e-3)), 1, 200);
    for (double ms = 0; ms < kWarmUpMs;) ms += sample(run, runs) * static_cast<double>(runs);
    std::vector<double> samples;
    for (int i = 0; i < 5; ++i) samples.push_back(sample(run, runs));
    std::ranges::sort(samples);
    return samples[2];
  }
  /// `work`: of one run, in units such that work / ms is the rate in `unit`. `out`: what every run makes anew, if there
  /// is such a thing, and all of them alike: not what is added to, and not slots of experts, whose order changes.
  void report(const std::string& name, double ms, double work, const char* unit, const ConstTensorView& out = {}) {
    const double rate = ms > 0 ? work / ms : 0;
    fmt::print("{:<44} {:>10.4f} {:>12.1f} {:>10}\n", name, ms, rate, unit);
    (void)std::fflush(stdout);
    results_.write({{"bench", name}, {"ms", ms}, {"rate", rate}, {"unit", unit}}, facts_, hash_of(out));
  }
  void measure(const std::string& name, double work, const char* unit, const std::function<void()>& run,
               const ConstTensorView& out = {}) {
    if (wants(name)) report(name, time(run), work, unit, out);
  }

 private:
  double sample(const std::function<void()>& run, int64_t runs) {
    const Event begin = stream_->record(EventTiming::kTimed);
    for (int64_t i = 0; i < runs; ++i) run();
    const Event end = stream_->record(EventTiming::kTimed);
    end.wait();
    return static_cast<double>(*end.reached_ns() - *begin.reached_ns()) * 1e-6 / static_cast<double>(runs);
  }

  // Of the first bytes: all of the largest outputs would take longer than measuring them.
  [[nodiscard]] std::optional<uint64_t> hash_of(const ConstTensorView& out) {
    constexpr size_t kHashedBytesMax = size_t{16} << 20;
    if (out.empty()) return std::nullopt;
    std::vector<std::byte> bytes(std::min(out.size_bytes(), kHashedBytesMax));
    stream_->copy(bytes.data(), out.data(), bytes.size());
    stream_->synchronize();
    OutputHash hash;
    hash.add(bytes);
    return hash.value();
  }

  ResultFile results_;
  cuda::CudaDevice device_;
  std::unique_ptr<Stream> stream_;
  std::string only_;
  RunFacts facts_;
  Buffer noise_;
};

}  // namespace zp::bench
