// cuBLASLt without the engine's restrictions.
#include "bench/cuda/choice_bench.h"

#include <cublasLt.h>

#include <string>
#include <utility>

#include "zp/device/cuda/handle.h"
#include "zp/ops/cuda/blas.h"
#include "zp/ops/cuda/cuda_ops.h"
#include "zp/ops/cuda/linear.h"

namespace zp::bench {
namespace {

constexpr size_t kWorkspaceBytes = cuda::Linear::kWorkspaceBytes;

// out[tokens, n] = x[tokens, k] * weight[n, k]^T, all bf16, by the first algorithm of cuBLASLt's heuristic for these
// sizes.
class FreeProduct final {
 public:
  FreeProduct(Bench& bench, int64_t tokens, int64_t n, int64_t k)
      : device_(bench.device().index()),
        workspace_(bench.device().allocate(kWorkspaceBytes)),
        layouts_(tokens, n, k, false, device_) {
    bench.device().bind();
    check(cublasLtCreate(handle_.put()), "cublasLtCreate");
    check(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
          "cublasLtMatmulDescSetAttribute");
    cublasLtMatmulPreferenceOpaque_t preference{};
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                                               sizeof kWorkspaceBytes),
          "cublasLtMatmulPreferenceSetAttribute");
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), &operation_, &layouts_.weight, &layouts_.x, &layouts_.out,
                                         &layouts_.out, &preference, 1, &choice_, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    check(count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  }

  void run(cudaStream_t stream, const std::byte* x, const std::byte* weight, std::byte* out) {
    const float one = 1;
    const float zero = 0;
    check(cublasLtMatmul(handle_.get(), &operation_, &one, weight, &layouts_.weight, x, &layouts_.x, &zero, out,
                         &layouts_.out, out, &layouts_.out, &choice_.algo, workspace_.data(), kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  void check(cublasStatus_t status, const char* call) const { cuda::check_blas(status, call, device_); }

  int32_t device_;
  Buffer workspace_;
  cuda::Handle<cublasLtHandle_t, &cublasLtDestroy> handle_;
  cublasLtMatmulDescOpaque_t operation_{};
  cuda::ProductLayouts layouts_;
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
