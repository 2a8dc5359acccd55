// Dense products against the reference, and the same bits whatever the number of rows.
#include "tests/ops/cuda/gpu.h"

namespace zp::test {
namespace {

class CudaLinear : public GpuTest {
 protected:
  HostTensor run(const HostTensor& x, const PackedMatrix& weight, DType out_type) {
    const GpuTensor gpu_x = gpu().upload(x);
    GpuTensor out = gpu().poisoned(out_type, {x.shape()[0], weight.n});
    gpu().ops().linear(gpu().stream(), {.x = gpu_x.view(), .weight = &weight, .out = out.view()});
    return gpu().download(out);
  }
  // out += the product.
  HostTensor add(const HostTensor& x, const PackedMatrix& weight, const HostTensor& before) {
    const GpuTensor gpu_x = gpu().upload(x);
    GpuTensor out = gpu().upload(before);
    gpu().ops().linear(gpu().stream(), {.x = gpu_x.view(), .weight = &weight, .out = out.view(), .add = true});
    return gpu().download(out);
  }
};

HostTensor run_reference(const HostTensor& x, const HostTensor& weight, DType out_type) {
  Harness reference(bf16_reference());
  const PackedMatrix packed = reference.pack(weight);
  HostTensor out(out_type, {x.shape()[0], packed.n});
  reference.ops().linear(reference.stream(), {.x = x.view(), .weight = &packed, .out = out.view()});
  reference.finish();
  return out;
}

// A sum of k products in f32 in any order is off by at most k * u * sum|a||b|; tensor cores cut off a few bits more,
// hence the 4. Rounding to bf16 may go to the other neighbour.
TEST_F(CudaLinear, MatchesTheReference) {
  uint64_t seed = 10;
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 8},
                             {8, 8},
                             {3, 17},
                             {64, 64},
                             {300, 100},
                             {128, 512},
                             {5, 4096},
                             {1024, 192},
                             {255, 136}}) {
    for (const int64_t tokens : {0, 1, 7, 64, 129}) {
      Random random(seed++);
      SCOPED_TRACE(random.seed());
      const HostTensor x = random.tensor(DType::kBf16, {tokens, k});
      const HostTensor weight = random.tensor(DType::kBf16, {n, k});
      const HostTensor magnitude = run_reference(absolute(x), absolute(weight), DType::kF32);
      const PackedMatrix packed = gpu().pack(weight);
      for (const DType type : {DType::kF32, DType::kBf16}) {
        const HostTensor wanted = run_reference(x, weight, type);
        const double chain = 4 * static_cast<double>(k) * kRoundF32;
        const double rounding = type == DType::kBf16 ? 2 * kRoundBf16 : 0;
        EXPECT_TRUE(matches(
            run(x, packed, type).floats(),
            expect_near(
                wanted, [&](int64_t i) { return chain * magnitude.d(i) + rounding * std::abs(wanted.d(i)) + kTiny; },
                type == DType::kBf16 ? kRoundBf16 / 2 : static_cast<double>(k) * kRoundF32 + 1e-6)))
            << n << 'x' << k << ", " << tokens << " tokens";
      }
    }
  }
}

// A product is complete, and rounded to f32, before it is added once; whatever the number of rows. With k of 17, and
// with rows that do not begin at multiples of 16 bytes, too.
TEST_F(CudaLinear, AddsToWhatIsThere) {
  Random random(31);
  SCOPED_TRACE(random.seed());
  for (const auto& [n, k] :
       {std::pair<int64_t, int64_t>{1, 8}, {3, 17}, {255, 136}, {192, 192}, {1024, 4096}, {2048, 1024}}) {
    const PackedMatrix weight = gpu().pack(random.tensor(DType::kBf16, {n, k}));
    for (const int64_t tokens : {0, 1, 2, 63, 64, 65, 127, 128, 129, 300}) {
      const HostTensor x = random.tensor(DType::kBf16, {tokens, k});
      const HostTensor before = random.tensor(DType::kF32, {tokens, n});
      const HostTensor product = run(x, weight, DType::kF32);
      HostTensor wanted(DType::kF32, {tokens, n});
      for (int64_t i = 0; i < wanted.elements(); ++i) wanted.set(i, before.at(i) + product.at(i));
      EXPECT_TRUE(same_bytes(add(x, weight, before).bytes(), wanted.bytes())) << n << 'x' << k << ", " << tokens;
    }
  }
}

TEST_F(CudaLinear, ARowHasTheSameBitsWhateverIsBesideIt) {
  Random random(30);
  SCOPED_TRACE(random.seed());
  for (const auto& [n, k] :
       {std::pair<int64_t, int64_t>{128, 2048}, {1280, 2048}, {2048, 1024}, {192, 192}, {8, 192}, {4096, 320}}) {
    const PackedMatrix weight = gpu().pack(random.tensor(DType::kBf16, {n, k}));
    const HostTensor x = random.tensor(DType::kBf16, {2100, k});
    for (const DType type : {DType::kF32, DType::kBf16}) {
      const HostTensor all = run(x, weight, type);
      for (const int64_t count : {1, 2, 3, 16, 63, 64, 65, 127, 128, 129, 255, 500, 1024, 2000}) {
        for (const int64_t first : {int64_t{0}, 2100 - count}) {
          std::vector<int64_t> rows;
          for (int64_t r = 0; r < count; ++r) rows.push_back(first + r);
          EXPECT_TRUE(same_bytes(run(x.pick(rows), weight, type).bytes(), all.row_bytes(first, count)))
              << n << 'x' << k << ", rows from " << first << ", " << count;
        }
      }
    }
  }
}

// The products of the models that are measured, and the head's slices, for up to as many tokens as one product has:
// rows that are alike have results that are.
TEST_F(CudaLinear, ARowOfARealModelHasTheSameBitsWhateverIsBesideIt) {
  Random random(33);
  SCOPED_TRACE(random.seed());
  constexpr int64_t kRows = 129;
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{5120, 2048},
                             {2048, 4096},
                             {128, 2048},
                             {9216, 4096},
                             {4096, 8192},
                             {128, 4096},
                             {32768, 2048},
                             {20864, 4096}}) {
    std::vector<int64_t> again;  // few rows of weights, many times: quickly drawn
    for (int64_t r = 0; r < n; ++r) again.push_back(r % 101);
    const PackedMatrix weight = gpu().pack(random.tensor(DType::kBf16, {101, k}).pick(again));
    const HostTensor x = random.tensor(DType::kBf16, {kRows, k});
    const GpuTensor some = gpu().upload(x);
    for (const DType type : {DType::kF32, DType::kBf16}) {
      const HostTensor wanted = run(x, weight, type);
      for (const int64_t tokens : {1, 7, 2'049, 16'384, 65'536}) {
        if (tokens * n > int64_t{16'384} * 20'864) continue;  // the head has few rows
        GpuTensor many(gpu().device(), DType::kBf16, {tokens, k});
        GpuTensor out = gpu().filled_with_nan(type, {tokens, n});
        for (int64_t first = 0; first < tokens; first += kRows) {
          const int64_t count = std::min(kRows, tokens - first);
          gpu().stream().copy(many.view().rows(first, count).data(), some.view().data(),
                              some.view().rows(0, count).size_bytes());
        }
        gpu().ops().linear(gpu().stream(), {.x = many.view(), .weight = &weight, .out = out.view()});
        for (const int64_t first : {int64_t{0}, tokens / 2 / kRows * kRows, (tokens - 1) / kRows * kRows}) {
          const int64_t count = std::min(kRows, tokens - first);
          EXPECT_TRUE(same_bytes(gpu().download_rows(out, first, count).bytes(), wanted.row_bytes(0, count)))
              << n << 'x' << k << ", rows from " << first << " of " << tokens;
        }
      }
    }
  }
}

// More tokens than one product of cuBLASLt's has: the last rows are what they are by themselves, in all three kinds of
// product, and the others are there too.
TEST_F(CudaLinear, TakesMoreTokensThanAnAlgorithmWasAskedAbout) {
  Random random(32);
  SCOPED_TRACE(random.seed());
  constexpr int64_t kTokens = 2 * cuda::Linear::kTokensMax + 5;
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{16, 64}, {3, 17}}) {
    const PackedMatrix weight = gpu().pack(random.tensor(DType::kBf16, {n, k}));
    const HostTensor x = random.tensor(DType::kBf16, {kTokens, k});
    const HostTensor before = random.tensor(DType::kF32, {kTokens, n});
    const HostTensor f32 = run(x, weight, DType::kF32);
    const HostTensor bf16 = run(x, weight, DType::kBf16);
    const HostTensor added = add(x, weight, before);
    for (const int64_t first : {int64_t{0}, cuda::Linear::kTokensMax - 2, cuda::Linear::kTokensMax,
                                2 * cuda::Linear::kTokensMax - 1, kTokens - 4}) {
      const std::vector<int64_t> rows = {first, first + 1, first + 2, first + 3};
      const HostTensor some = x.pick(rows);
      EXPECT_TRUE(same_bytes(run(some, weight, DType::kF32).bytes(), f32.row_bytes(first, 4))) << first;
      EXPECT_TRUE(same_bytes(run(some, weight, DType::kBf16).bytes(), bf16.row_bytes(first, 4))) << first;
      EXPECT_TRUE(same_bytes(add(some, weight, before.pick(rows)).bytes(), added.row_bytes(first, 4))) << first;
    }
  }
}

}  // namespace
}  // namespace zp::test
