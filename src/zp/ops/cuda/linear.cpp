// One algorithm for each shape, whatever the number of tokens.
#include "zp/ops/cuda/linear.h"

#include <algorithm>
#include <array>
#include <span>

#include "zp/ops/cuda/blas.h"

namespace zp::cuda {
namespace {

// The number of tokens that an algorithm is chosen for; any other must do with the same one.
constexpr int64_t kReferenceTokens = 16384;
constexpr std::array<int64_t, 6> kOtherTokens = {1, 7, 64, 129, 2048, Linear::kTokensMax};
constexpr int kCandidates = 16;
// Narrower products are too short for the order below to matter.
constexpr int64_t kWideRows = 1024;

// cuBLASLt's own order is that of a chip at its full clock. One that draws all the power it may is slowed down by every
// joule: there a whole model is fastest with tiles of 256 rows of weights x 128 tokens (measured:
// docs/notes/cuda_ops.md).
int32_t place_in_order(const cublasLtMatmulAlgo_t& algorithm, int64_t n) {
  uint32_t tile = 0;
  size_t written = 0;
  if (n < kWideRows || cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile,
                                                            sizeof(tile), &written) != CUBLAS_STATUS_SUCCESS)
    return 0;
  return tile == CUBLASLT_MATMUL_TILE_256x128 ? 0 : 1;
}

template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, T value,
         int32_t device) {
  check_blas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute", device);
}

}  // namespace

Linear::Linear(CudaDevice& device) : device_(device.index()), workspace_(device.allocate(kWorkspaceBytes)) {
  device.bind();
  check_blas(cublasLtCreate(handle_.put()), "cublasLtCreate", device_);
  check_blas(cublasLtMatmulDescCreate(operation_.put(), CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate",
             device_);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check_blas(
      cublasLtMatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
      "cublasLtMatmulDescSetAttribute", device_);
}

// An algorithm has been asked about kTokensMax tokens, and a row has the same bits whatever is beside it: so more
// tokens are products of their own.
void Linear::run(const CudaStream& stream, const Args& args) {
  const size_t out_bytes = args.out_is_f32 ? sizeof(float) : sizeof(Bits16);
  for (int64_t begin = 0; begin < args.tokens; begin += kTokensMax) {
    Args part = args;
    part.tokens = std::min(kTokensMax, args.tokens - begin);
    part.x += begin * args.k;
    part.out = static_cast<std::byte*>(args.out) + static_cast<size_t>(begin * args.n) * out_bytes;
    run_part(stream, part);
  }
}

void Linear::run_part(const CudaStream& stream, const Args& args) {
  const Choice& choice = find({args.n, args.k, args.out_is_f32});
  if (!choice.has_algorithm) {
    launch_simple_linear({.x = args.x,
                          .weight = args.weight,
                          .out = args.out,
                          .out_is_f32 = args.out_is_f32,
                          .add = args.add,
                          .tokens = args.tokens,
                          .n = args.n,
                          .k = args.k},
                         stream.get());
    return;
  }
  const ProductLayouts layouts(args.tokens, args.n, args.k, args.out_is_f32, device_);
  const float one = 1;
  const float kept = args.add ? 1 : 0;  // of what out has
  // The opaque structures are what the layout handles point to.
  auto* weight = const_cast<cublasLtMatrixLayoutOpaque_t*>(&layouts.weight);
  auto* x = const_cast<cublasLtMatrixLayoutOpaque_t*>(&layouts.x);
  auto* out = const_cast<cublasLtMatrixLayoutOpaque_t*>(&layouts.out);
  check_blas(cublasLtMatmul(handle_.get(), operation_.get(), &one, args.weight, weight, args.x, x, &kept, args.out, out,
                            args.out, out, &choice.algorithm, workspace_.data(), kWorkspaceBytes, stream.get()),
             "cublasLtMatmul", device_);
}

const Linear::Choice& Linear::find(const Shape& shape) {
  const auto found = choices_.find(shape);
  if (found != choices_.end()) return found->second;
  return choices_.emplace(shape, choose(shape)).first->second;
}

Linear::Choice Linear::choose(const Shape& shape) const {
  // Rows that do not begin at multiples of 16 bytes are not for the tensor cores.
  if (shape.k % 8 != 0) return {};
  cublasLtMatmulPreferenceOpaque_t preference{};
  check_blas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit", device_);
  set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes, device_);
  set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE}, device_);
  constexpr uint32_t kAlignment = 16;  // of any row
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(&preference, attribute, shape.n % 8 == 0 ? kAlignment : uint32_t{2}, device_);

  ProductLayouts layouts(kReferenceTokens, shape.n, shape.k, shape.out_is_f32, device_);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_.get(), operation_.get(), &layouts.weight, &layouts.x, &layouts.out,
                                     &layouts.out, &preference, kCandidates, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic", device_);
  const auto found = std::span(results).first(static_cast<size_t>(count));
  std::ranges::stable_sort(found, {}, [&](const auto& result) { return place_in_order(result.algo, shape.n); });
  for (const auto& result : found) {
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    const bool serves_all = std::ranges::all_of(kOtherTokens, [&](int64_t tokens) {
      ProductLayouts other(tokens, shape.n, shape.k, shape.out_is_f32, device_);
      cublasLtMatmulHeuristicResult_t checked{};
      return cublasLtMatmulAlgoCheck(handle_.get(), operation_.get(), &other.weight, &other.x, &other.out, &other.out,
                                     &result.algo, &checked) == CUBLAS_STATUS_SUCCESS &&
             checked.workspaceSize <= kWorkspaceBytes;
    });
    if (serves_all) return {.has_algorithm = true, .algorithm = result.algo};
  }
  return {};
}

}  // namespace zp::cuda
