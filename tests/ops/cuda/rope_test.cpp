// Norm and rotation of heads against the reference.
#include <array>
#include <cmath>
#include <numeric>

#include "tests/ops/cuda/gpu.h"

namespace zp::test {
namespace {

class CudaRope : public GpuTest {};

// A rotated pair keeps its length, so errors are bounded by that: a few roundings of f32 in norm, sine and products,
// and one to bf16, which may go to the other neighbour.
Expected near_rotated(const HostTensor& wanted, int64_t head_dim) {
  const int64_t half = head_dim / 2;
  return expect_near(
      wanted,
      [&, half, head_dim](int64_t i) {
        const int64_t other = i % head_dim < half ? i + half : i - half;
        return 2 * kRoundBf16 * std::abs(wanted.d(i)) + 32 * kRoundF32 * std::hypot(wanted.d(i), wanted.d(other)) +
               kTiny;
      },
      kRoundBf16 / 2);
}

TEST_F(CudaRope, MatchesTheReference) {
  Random random(40);
  SCOPED_TRACE(random.seed());
  struct Heads {
    int64_t q;
    int64_t kv;
    int64_t dim;
  };
  for (const Heads& heads :
       {Heads{6, 2, 32}, Heads{32, 4, 128}, Heads{64, 4, 128}, Heads{1, 1, 128}, Heads{3, 1, 128}, Heads{26, 2, 128},
        Heads{100, 5, 128}, Heads{4, 4, 64}, Heads{2, 1, 256}, Heads{1, 1, 16}}) {
    for (const int64_t tokens : {0, 1, 7, 8, 9, 70}) {
      for (const auto& [norm, type] :
           {std::pair{true, DType::kF32}, {false, DType::kF32}, {true, DType::kBf16}, {false, DType::kBf16}}) {
        std::vector<int32_t> positions;
        for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(random.integer(0, 262'143)));
        const HostTensor qkv = random.tensor(type, {tokens, (heads.q + 2 * heads.kv) * heads.dim});
        HostTensor frequencies(DType::kF32, {heads.dim / 2});
        for (int64_t i = 0; i < heads.dim / 2; ++i)
          frequencies.set(i, std::pow(1e6f, -2.0f * static_cast<float>(i) / static_cast<float>(heads.dim)));
        const HostTensor q_norm = random.tensor(DType::kF32, {heads.dim});
        const HostTensor k_norm = random.tensor(DType::kF32, {heads.dim});
        HostTensor q(DType::kBf16, {tokens, heads.q, heads.dim});
        HostTensor k(DType::kBf16, {tokens, heads.kv, heads.dim});
        HostTensor v(DType::kBf16, {tokens, heads.kv, heads.dim});
        RopeArgs args{.qkv = qkv.view(),
                      .positions = positions,
                      .inverse_frequencies = frequencies.view(),
                      .q_norm = norm ? q_norm.view() : TensorView(),
                      .k_norm = norm ? k_norm.view() : TensorView(),
                      .eps = 1e-6f,
                      .q = q.view(),
                      .k = k.view(),
                      .v = v.view()};
        Harness reference(bf16_reference());
        reference.ops().rope(reference.stream(), args);
        reference.finish();

        const GpuTensor gpu_qkv = gpu().upload(qkv);
        const GpuTensor gpu_frequencies = gpu().upload(frequencies);
        const GpuTensor gpu_q_norm = gpu().upload(q_norm);
        const GpuTensor gpu_k_norm = gpu().upload(k_norm);
        GpuTensor gpu_q = gpu().poisoned(DType::kBf16, q.shape());
        GpuTensor gpu_k = gpu().poisoned(DType::kBf16, k.shape());
        GpuTensor gpu_v = gpu().poisoned(DType::kBf16, v.shape());
        args.qkv = gpu_qkv.view();
        args.inverse_frequencies = gpu_frequencies.view();
        if (norm) {
          args.q_norm = gpu_q_norm.view();
          args.k_norm = gpu_k_norm.view();
        }
        args.q = gpu_q.view();
        args.k = gpu_k.view();
        args.v = gpu_v.view();
        gpu().ops().rope(gpu().stream(), args);
        EXPECT_TRUE(matches(gpu().download(gpu_q).floats(), near_rotated(q, heads.dim))) << heads.dim;
        EXPECT_TRUE(matches(gpu().download(gpu_k).floats(), near_rotated(k, heads.dim))) << heads.dim;
        EXPECT_TRUE(same_bytes(gpu().download(gpu_v).bytes(), v.bytes())) << heads.dim;
      }
    }
  }
}

// One block has the heads of eight tokens, several warps a token's: neither the place in them nor the neighbours count,
// and each of the two norms may be missing.
TEST_F(CudaRope, ATokenHasTheSameBitsWhateverIsBesideIt) {
  constexpr int64_t kTokens = 41;
  constexpr int64_t kQ = 26;
  constexpr int64_t kKv = 2;
  constexpr int64_t kDim = 128;
  Random random(41);
  SCOPED_TRACE(random.seed());
  const HostTensor qkv = random.tensor(DType::kBf16, {kTokens, (kQ + 2 * kKv) * kDim});
  HostTensor frequencies(DType::kF32, {kDim / 2});
  for (int64_t i = 0; i < kDim / 2; ++i)
    frequencies.set(i, std::pow(1e6f, -2.0f * static_cast<float>(i) / static_cast<float>(kDim)));
  const HostTensor norm = random.tensor(DType::kF32, {kDim});
  const GpuTensor gpu_frequencies = gpu().upload(frequencies);
  const GpuTensor gpu_norm = gpu().upload(norm);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < kTokens; ++t) positions.push_back(static_cast<int32_t>(random.integer(0, 262'143)));
  for (const auto& [q_norm, k_norm] : {std::pair{true, true}, {true, false}, {false, true}}) {
    const auto run = [&, q_norm = q_norm, k_norm = k_norm](std::span<const int64_t> rows) {
      std::vector<int32_t> at;
      for (const int64_t row : rows) at.push_back(positions[static_cast<size_t>(row)]);
      const GpuTensor picked = gpu().upload(qkv.pick(rows));
      GpuTensor q = gpu().poisoned(DType::kBf16, {std::ssize(rows), kQ, kDim});
      GpuTensor k = gpu().poisoned(DType::kBf16, {std::ssize(rows), kKv, kDim});
      GpuTensor v = gpu().poisoned(DType::kBf16, {std::ssize(rows), kKv, kDim});
      gpu().ops().rope(gpu().stream(), {.qkv = picked.view(),
                                        .positions = at,
                                        .inverse_frequencies = gpu_frequencies.view(),
                                        .q_norm = q_norm ? gpu_norm.view() : ConstTensorView(),
                                        .k_norm = k_norm ? gpu_norm.view() : ConstTensorView(),
                                        .eps = 1e-6f,
                                        .q = q.view(),
                                        .k = k.view(),
                                        .v = v.view()});
      return std::array{gpu().download(q), gpu().download(k), gpu().download(v)};
    };
    std::vector<int64_t> all_rows(kTokens);
    std::iota(all_rows.begin(), all_rows.end(), 0);
    const auto all = run(all_rows);
    // What is not normed keeps its length but for the rounding of each of its elements.
    const HostTensor& unnormed = q_norm ? all[1] : all[0];
    const int64_t first_head = q_norm ? kQ : 0;
    if (!q_norm || !k_norm) {
      double before = 0;
      double after = 0;
      for (int64_t i = 0; i < kDim; ++i) {
        before += std::pow(qkv.d(first_head * kDim + i), 2);
        after += std::pow(unnormed.d(i), 2);
      }
      EXPECT_NEAR(after, before, 4 * kRoundBf16 * before) << q_norm << k_norm;
    }
    for (const int64_t count : {1, 8, 9, 30}) {
      const std::vector<int64_t> order = random.permutation(kTokens);
      const std::span<const int64_t> rows = std::span(order).first(static_cast<size_t>(count));
      const auto some = run(rows);
      for (size_t i = 0; i < some.size(); ++i)
        EXPECT_TRUE(same_bytes(some[i].bytes(), all[i].pick(rows).bytes())) << count << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace zp::test
