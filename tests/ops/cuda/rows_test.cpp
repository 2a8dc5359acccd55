// Operations on rows: what moves bytes is bitwise, what computes is near the reference.
#include <cmath>

#include "tests/ops/cuda/gpu.h"

namespace zp::test {
namespace {

class CudaRows : public GpuTest {};

std::vector<int32_t> random_ids(Random& random, int64_t count, int64_t limit) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random.integer(0, limit - 1)));
  return ids;
}

TEST_F(CudaRows, EmbedCopiesRows) {
  Random random(1);
  SCOPED_TRACE(random.seed());
  for (const int64_t hidden : {1, 8, 192, 1000}) {
    for (const int64_t tokens : {0, 1, 33, 500}) {
      const HostTensor table = random.tensor(DType::kBf16, {77, hidden});
      const std::vector<int32_t> ids = random_ids(random, tokens, 77);
      HostTensor wanted(DType::kF32, {tokens, hidden});
      Harness reference(bf16_reference());
      reference.ops().embed(reference.stream(), {.ids = ids, .table = table.view(), .out = wanted.view()});
      reference.finish();
      const GpuTensor gpu_table = gpu().upload(table);
      GpuTensor out = gpu().poisoned(DType::kF32, {tokens, hidden});
      gpu().ops().embed(gpu().stream(), {.ids = ids, .table = gpu_table.view(), .out = out.view()});
      EXPECT_TRUE(same_bytes(gpu().download(out).bytes(), wanted.bytes())) << hidden << ' ' << tokens;
    }
  }
}

// Tensors of tests are on the device, so what is locked is the operations' own.
TEST_F(CudaRows, TakesTheLockedMemoryThatIsPlanned) {
  EXPECT_EQ(gpu().device().allocated_bytes(MemoryKind::kPinnedHost), ops_pinned_bytes(gpu().device()));
  EXPECT_EQ(ops_pinned_bytes(gpu().device()), size_t{64} << 20);
}

TEST_F(CudaRows, MetadataSurvivesMoreThanTheRingHolds) {
  // Many megabytes of ids, so that segments of the ring are used again and again.
  Random random(2);
  SCOPED_TRACE(random.seed());
  constexpr int64_t kTokens = 1'000'000;
  const HostTensor table = random.tensor(DType::kBf16, {50, 1});
  const GpuTensor gpu_table = gpu().upload(table);
  std::vector<GpuTensor> outs;
  for (int round = 0; round < 40; ++round) outs.push_back(gpu().poisoned(DType::kF32, {kTokens, 1}));
  std::vector<std::vector<int32_t>> all;
  for (GpuTensor& out : outs) {
    all.push_back(random_ids(random, kTokens, 50));
    gpu().ops().embed(gpu().stream(), {.ids = all.back(), .table = gpu_table.view(), .out = out.view()});
  }
  for (size_t round = 0; round < outs.size(); ++round) {
    const HostTensor got = gpu().download(outs[round]);
    int64_t wrong = 0;
    for (int64_t t = 0; t < kTokens; ++t) wrong += got.at(t) == table.at(all[round][static_cast<size_t>(t)]) ? 0 : 1;
    EXPECT_EQ(wrong, 0) << round;
  }
}

TEST_F(CudaRows, GatherRowsCopiesRows) {
  Random random(3);
  SCOPED_TRACE(random.seed());
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const HostTensor x = random.tensor(dtype, {40, 100});
    for (const int64_t count : {0, 1, 17}) {
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < count; ++i) rows.push_back(random.integer(0, 39));
      const GpuTensor gpu_x = gpu().upload(x);
      GpuTensor out = gpu().poisoned(dtype, {count, 100});
      gpu().ops().gather_rows(gpu().stream(), {.x = gpu_x.view(), .rows = rows, .out = out.view()});
      EXPECT_TRUE(same_bytes(gpu().download(out).bytes(), x.pick(rows).bytes()));
    }
  }
}

TEST_F(CudaRows, ConvertRoundsAsTheReferenceDoes) {
  Random random(5);
  SCOPED_TRACE(random.seed());
  for (const DType from : {DType::kF32, DType::kBf16}) {
    const HostTensor x = random.tensor(from, {37, 101});
    for (const DType to : {DType::kF32, DType::kBf16}) {
      const GpuTensor gpu_x = gpu().upload(x);
      GpuTensor out = gpu().poisoned(to, {37, 101});
      gpu().ops().convert(gpu().stream(), {.x = gpu_x.view(), .out = out.view()});
      HostTensor expected(to, {37, 101});
      for (int64_t i = 0; i < x.elements(); ++i) expected.set(i, x.at(i));
      EXPECT_TRUE(same_bytes(gpu().download(out).bytes(), expected.bytes()));
    }
  }
}

TEST_F(CudaRows, CombineSumsTheRowsOfEachToken) {
  Random random(6);
  SCOPED_TRACE(random.seed());
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const HostTensor x = random.tensor(dtype, {50, 100});
    const HostTensor weights = random.tensor(DType::kF32, {9, 4});
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < weights.elements(); ++i) rows.push_back(random.integer(0, 49));
    const GpuTensor gpu_x = gpu().upload(x);
    const GpuTensor gpu_weights = gpu().upload(weights);
    GpuTensor out = gpu().poisoned(DType::kF32, {9, 100});
    gpu().ops().combine(gpu().stream(),
                        {.x = gpu_x.view(), .rows = rows, .weights = gpu_weights.view(), .out = out.view()});
    const HostTensor got = gpu().download(out);
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t h = 0; h < 100; ++h) {
        double sum = 0;
        double size = 0;
        for (int64_t j = 0; j < 4; ++j) {
          const double term = weights.d(t * 4 + j) * x.d(rows[static_cast<size_t>(t * 4 + j)] * 100 + h);
          sum += term;
          size += std::abs(term);
        }
        EXPECT_NEAR(got.d(t * 100 + h), sum, size * 4 * 0x1p-23) << t << ", " << h;
      }
    }
  }
}

TEST_F(CudaRows, StoreKvCopiesRowsAndNothingElse) {
  Random random(4);
  SCOPED_TRACE(random.seed());
  const HostTensor k = random.tensor(DType::kBf16, {100, 2, 48});
  const HostTensor v = random.tensor(DType::kBf16, {100, 2, 48});
  const GpuTensor gpu_k = gpu().upload(k);
  const GpuTensor gpu_v = gpu().upload(v);
  GpuTensor pool_k = gpu().poisoned(DType::kBf16, {64, 2, 48});
  GpuTensor pool_v = gpu().poisoned(DType::kBf16, {64, 2, 48});
  const auto at = [](GpuTensor& pool, int64_t row) { return pool.view().rows(row, 0).data(); };
  const std::vector<KvStore> stores = {{.row = 3, .tokens = 16, .k = at(pool_k, 32), .v = at(pool_v, 32)},
                                       {.row = 0, .tokens = 0, .k = nullptr, .v = nullptr},
                                       {.row = 90, .tokens = 10, .k = at(pool_k, 0), .v = at(pool_v, 0)}};
  gpu().ops().store_kv(gpu().stream(), {.k = gpu_k.view(), .v = gpu_v.view(), .stores = stores});
  for (const auto& [pool, from] : {std::pair{&pool_k, &k}, {&pool_v, &v}}) {
    const HostTensor got = gpu().download(*pool);
    EXPECT_TRUE(same_bytes(got.row_bytes(32, 16), from->row_bytes(3, 16)));
    EXPECT_TRUE(same_bytes(got.row_bytes(0, 10), from->row_bytes(90, 10)));
    const HostTensor untouched(DType::kBf16, {64, 2, 48});
    EXPECT_TRUE(same_bytes(got.row_bytes(10, 22), untouched.row_bytes(10, 22)));
    EXPECT_TRUE(same_bytes(got.row_bytes(48, 16), untouched.row_bytes(48, 16)));
  }
}

// The residual is one addition in f32: bitwise. A result is rounded to bf16, so where the reference's value lies near
// the middle of two, the other one may come out: a step of twice the unit roundoff. Only few are, so together they
// differ far less.
TEST_F(CudaRows, ResidualNorm) {
  Random random(5);
  SCOPED_TRACE(random.seed());
  for (const int64_t hidden : {4, 6, 192, 1023, 2048, 2052, 4096, 5120, 8192, 9000}) {
    for (const int64_t tokens : {0, 1, 5}) {
      for (const bool with_delta : {true, false}) {
        const HostTensor start = random.tensor(DType::kF32, {tokens, hidden});
        const HostTensor delta = random.tensor(DType::kF32, {tokens, hidden});
        const HostTensor weight = random.tensor(DType::kF32, {hidden});
        HostTensor wanted_sum = start;
        HostTensor wanted(DType::kBf16, {tokens, hidden});
        Harness reference(bf16_reference());
        reference.ops().residual_norm(reference.stream(), {.residual = wanted_sum.view(),
                                                           .delta = with_delta ? delta.view() : TensorView(),
                                                           .weight = weight.view(),
                                                           .eps = 1e-6f,
                                                           .out = wanted.view()});
        reference.finish();
        GpuTensor residual = gpu().upload(start);
        const GpuTensor gpu_delta = gpu().upload(delta);
        const GpuTensor gpu_weight = gpu().upload(weight);
        GpuTensor out = gpu().poisoned(DType::kBf16, {tokens, hidden});
        gpu().ops().residual_norm(gpu().stream(), {.residual = residual.view(),
                                                   .delta = with_delta ? gpu_delta.view() : ConstTensorView(),
                                                   .weight = gpu_weight.view(),
                                                   .eps = 1e-6f,
                                                   .out = out.view()});
        EXPECT_TRUE(same_bytes(gpu().download(residual).bytes(), wanted_sum.bytes())) << hidden;
        EXPECT_TRUE(matches(
            gpu().download(out).floats(),
            expect_near(
                wanted, [&](int64_t i) { return 2 * kRoundBf16 * std::abs(wanted.d(i)) + kTiny; }, kRoundBf16 / 4)))
            << hidden;
      }
    }
  }
}

TEST_F(CudaRows, ResidualWithoutNormOnlyAdds) {
  Random random(6);
  const HostTensor start = random.tensor(DType::kF32, {3, 64});
  const HostTensor delta = random.tensor(DType::kF32, {3, 64});
  GpuTensor residual = gpu().upload(start);
  const GpuTensor gpu_delta = gpu().upload(delta);
  gpu().ops().residual_norm(
      gpu().stream(), {.residual = residual.view(), .delta = gpu_delta.view(), .weight = {}, .eps = 0, .out = {}});
  const HostTensor got = gpu().download(residual);
  for (int64_t i = 0; i < got.elements(); ++i) EXPECT_EQ(got.at(i), start.at(i) + delta.at(i));
}

TEST_F(CudaRows, Swiglu) {
  Random random(7);
  SCOPED_TRACE(random.seed());
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const int64_t width : {1, 33, 256}) {
      const HostTensor x = random.tensor(type, {9, 2 * width}, 3.0f);
      HostTensor wanted(DType::kBf16, {9, width});
      Harness reference(bf16_reference());
      reference.ops().swiglu(reference.stream(), {.x = x.view(), .out = wanted.view()});
      reference.finish();
      const GpuTensor gpu_x = gpu().upload(x);
      GpuTensor out = gpu().poisoned(DType::kBf16, {9, width});
      gpu().ops().swiglu(gpu().stream(), {.x = gpu_x.view(), .out = out.view()});
      // silu(-60) is about 1e-24: relative to that too.
      EXPECT_TRUE(matches(
          gpu().download(out).floats(),
          expect_near(
              wanted, [&](int64_t i) { return 2 * kRoundBf16 * std::abs(wanted.d(i)) + kTiny; }, kRoundBf16 / 2)));
    }
  }
}

}  // namespace
}  // namespace zp::test
