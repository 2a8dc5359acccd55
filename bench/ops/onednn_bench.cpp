// oneDNN on one core at the shapes of experts, beside our own product of the same rows: what decided against the
// library. Weights cycle through 64 MB, as experts do; the library's are prepacked in the format it asks for.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "zp/device/cpu/cpu_device.h"
#include "zp/ops/cpu/gemm.h"

namespace zp {
namespace {

struct Product {
  int64_t m;
  int64_t n;
  int64_t k;
  DType dtype;

  [[nodiscard]] int64_t weight_count() const {
    return std::clamp<int64_t>((int64_t{64} << 20) / (n * k * static_cast<int64_t>(size_of(dtype))), 1, 128);
  }
  [[nodiscard]] std::string name() const {
    return std::string(to_string(dtype)) + "/" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  }
};

void report(benchmark::State& state, const Product& product) {
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(product.m * product.n * product.k),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

// 0.747 in either type: values that cost the multipliers what real ones do.
constexpr auto kFill = std::byte{0x3f};
std::vector<std::byte> filled(size_t size) { return std::vector<std::byte>(size + 64, kFill); }

dnnl::memory filled_memory(const dnnl::memory::desc& description, const dnnl::engine& engine) {
  dnnl::memory memory(description, engine);
  std::memset(memory.get_data_handle(), std::to_integer<int>(kFill), description.get_size());
  return memory;
}

void onednn(benchmark::State& state, const Product& product) {
  const auto type = product.dtype == DType::kBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::memory::desc a({product.m, product.k}, type, dnnl::memory::format_tag::ab);
  const dnnl::memory::desc b({product.k, product.n}, type, dnnl::memory::format_tag::any);
  const dnnl::memory::desc c({product.m, product.n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc description({a, b, c}, attributes, engine);
  const dnnl::matmul primitive(description);
  dnnl::memory a_memory = filled_memory(a, engine);
  dnnl::memory c_memory(c, engine);
  dnnl::memory scratchpad(description.scratchpad_desc(), engine);
  std::vector<dnnl::memory> weights;
  for (int64_t i = 0; i < product.weight_count(); ++i)
    weights.push_back(filled_memory(description.weights_desc(), engine));
  size_t next = 0;
  for (auto _ : state) {
    primitive.execute(stream, {{DNNL_ARG_SRC, a_memory},
                               {DNNL_ARG_WEIGHTS, weights[next++ % weights.size()]},
                               {DNNL_ARG_DST, c_memory},
                               {DNNL_ARG_SCRATCHPAD, scratchpad}});
  }
  report(state, product);
  state.SetLabel(description.impl_info_str());
}

// As run_inner() does: rows are packed, then multiplied with one panel after another.
void own(benchmark::State& state, const Product& product) {
  cpu::CpuDevice device(0, 1);
  cpu::Workers workers(device, device.pool(), cpu::detect_isa(), product.dtype);
  const size_t row_bytes = static_cast<size_t>(product.k) * size_of(product.dtype);
  const size_t panel_bytes = workers.layout().panel_bytes(product.k);
  const size_t weight_bytes = static_cast<size_t>(cpu::panel_count(product.n)) * panel_bytes;
  const std::vector<std::byte> x = filled(static_cast<size_t>(product.m) * row_bytes);
  const std::vector<std::byte> weights = filled(static_cast<size_t>(product.weight_count()) * weight_bytes);
  int64_t next = 0;
  for (auto _ : state) {
    const std::byte* weight = weights.data() + static_cast<size_t>(next++ % product.weight_count()) * weight_bytes;
    cpu::PackedRows rows(workers, workers.scratch(0), product.k);
    const int64_t rows_max = std::min(product.m, cpu::PackedRows::rows_max(workers, product.k));
    for (int64_t r = 0; r < rows_max; ++r) rows.add(x.data() + static_cast<size_t>(r) * row_bytes);
    rows.pack();
    for (int64_t panel = 0; panel < cpu::panel_count(product.n); ++panel)
      benchmark::DoNotOptimize(rows.multiply(weight + static_cast<size_t>(panel) * panel_bytes));
  }
  Product done = product;
  done.m = std::min(product.m, cpu::PackedRows::rows_max(workers, product.k));
  report(state, done);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const DType dtype : {DType::kBf16, DType::kF32}) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{256, 192}, {192, 128}, {1536, 2048}, {2048, 768}}) {
      for (const int64_t m : {16, 32, 64, 120}) {
        const Product product{m, n, k, dtype};
        benchmark::RegisterBenchmark(("product/onednn/" + product.name()).c_str(),
                                     [=](benchmark::State& state) { onednn(state, product); })

            ->Unit(benchmark::kMicrosecond);
        benchmark::RegisterBenchmark(("product/own/" + product.name()).c_str(),
                                     [=](benchmark::State& state) { own(state, product); })

            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace zp
