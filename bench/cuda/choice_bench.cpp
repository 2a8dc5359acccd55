// cuBLASLt without the engine's restrictions.
#include "bench/cuda/choice_bench.h"

#include <cublasLt.h>

#include <array>
#include <string>
#include <utility>

#include "zp/base/error.h"
#include "zp/device/cuda/handle.h"
#include "zp/ops/cuda/cuda_ops.h"

namespace zp::bench {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

void check_blas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(ErrorCode::kDevice, "{} failed: {}", call, cublasLtGetStatusString(status));
}

// out[tokens, n] = x[tokens, k] * weight[n, k]^T, all bf16, by the first algorithm of cuBLASLt's heuristic for these
// sizes. It works column by column, so weights come first, transposed.
class FreeProduct final {
 public:
  FreeProduct(Bench& bench, int64_t tokens, int64_t n, int64_t k)
      : workspace_(bench.device().allocate(kWorkspaceBytes)) {
    bench.device().bind();
    check_blas(cublasLtCreate(handle_.put()), "cublasLtCreate");
    check_blas(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check_blas(cublasLtMatmulDescSetAttribute(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
               "cublasLtMatmulDescSetAttribute");
    const auto [rows, columns, inner] =
        std::array{static_cast<uint64_t>(n), static_cast<uint64_t>(tokens), static_cast<uint64_t>(k)};
    check_blas(cublasLtMatrixLayoutInit(&weight_, CUDA_R_16BF, inner, rows, k), "cublasLtMatrixLayoutInit");
    check_blas(cublasLtMatrixLayoutInit(&x_, CUDA_R_16BF, inner, columns, k), "cublasLtMatrixLayoutInit");
    check_blas(cublasLtMatrixLayoutInit(&out_, CUDA_R_16BF, rows, columns, n), "cublasLtMatrixLayoutInit");
    cublasLtMatmulPreferenceOpaque_t preference{};
    check_blas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    check_blas(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &kWorkspaceBytes, sizeof kWorkspaceBytes),
               "cublasLtMatmulPreferenceSetAttribute");
    int count = 0;
    check_blas(cublasLtMatmulAlgoGetHeuristic(handle_.get(), &operation_, &weight_, &x_, &out_, &out_, &preference, 1,
                                              &choice_, &count),
               "cublasLtMatmulAlgoGetHeuristic");
    check_blas(count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  }

  void run(cudaStream_t stream, const std::byte* x, const std::byte* weight, std::byte* out) {
    const float one = 1;
    const float zero = 0;
    check_blas(cublasLtMatmul(handle_.get(), &operation_, &one, weight, &weight_, x, &x_, &zero, out, &out_, out, &out_,
                              &choice_.algo, workspace_.data(), kWorkspaceBytes, stream),
               "cublasLtMatmul");
  }

 private:
  Buffer workspace_;
  cuda::Handle<cublasLtHandle_t, &cublasLtDestroy> handle_;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t weight_{};
  cublasLtMatrixLayoutOpaque_t x_{};
  cublasLtMatrixLayoutOpaque_t out_{};
  cublasLtMatmulHeuristicResult_t choice_{};
};

}  // namespace

void bench_choice(Bench& bench, const ModelSizes& model) {
  const int64_t q_dim = model.q_heads * model.head_dim;
  struct Projection {
    const char* name;
    int64_t n;
    int64_t k;
  };
  for (const auto& [projection, n, k] :
       {Projection{"qkv", q_dim + 2 * model.kv_heads * model.head_dim, model.hidden}, {"out", model.hidden, q_dim}}) {
    for (const int64_t tokens : {16, 64, 256, 1024, 4096, 16384, 32768}) {
      const std::string name = fmt::format("choice/{} {} {} tokens", model.name, projection, tokens);
      if (!bench.wants(name)) continue;
      const double work = 2.0 * static_cast<double>(tokens * n * k) * 1e-9;
      const Tensor x = bench.noise(DType::kBf16, {tokens, k});
      const PackedMatrix weight = bench.matrix(n, k);
      const Tensor out(bench.device(), DType::kBf16, {tokens, n});
      cuda::CudaOps ops(bench.device(), {});
      FreeProduct product(bench, tokens, n, k);
      bench.measure(name + ": fixed", work, "TFLOP/s",
                    [&] { ops.linear(bench.stream(), {.x = x.view(), .weight = &weight, .out = out.view()}); });
      bench.measure(name + ": free", work, "TFLOP/s", [&] {
        product.run(bench.stream().get(), x.view().data(), weight.buffer.data(), out.view().data());
      });
    }
  }
}

}  // namespace zp::bench
