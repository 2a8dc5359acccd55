// What the factory asks of the CUDA backend.
#include "zp/base/error.h"
#include "zp/ops/cuda/attention_kernels.h"
#include "zp/ops/cuda/cuda_ops.h"
#include "zp/ops/cuda/kernels.h"
#include "zp/ops/cuda_entry.h"

namespace zp {
namespace {

void refuse_dtype(const OpsSpec& spec) {
  if (spec.activation.value_or(DType::kBf16) != DType::kBf16)
    fail(ErrorCode::kUnsupported,
         "a GPU computes in bf16 only, not in {}: ask for compute type bf16 (weights are rounded to it), or use the "
         "device 'cpu'",
         to_string(*spec.activation));
}

void refuse_sizes(const OpsLimits& limits) {
  const auto refuse = [](const char* what, int64_t value, const char* limit) {
    fail(ErrorCode::kUnsupported, "{} {} is not supported on a GPU: it must be {}", what, value, limit);
  };
  if (limits.head_dim % 16 != 0 || limits.head_dim > cuda::kHeadDimMax)
    refuse("head dimension", limits.head_dim, "a multiple of 16, at most 256");
  if (limits.experts > cuda::kExpertsMax) refuse("a number of experts of", limits.experts, "at most 1024");
  if (limits.experts_per_token > cuda::kChosenMax)
    refuse("a number of experts a token of", limits.experts_per_token, "at most 32");
  if (limits.expert.hidden % 8 != 0) refuse("hidden size", limits.expert.hidden, "a multiple of 8");
  if (const int64_t most =
          cuda::moe_tokens_max(limits.experts_per_token, limits.expert.hidden, limits.expert.intermediate);
      limits.moe_tokens > most)
    fail(ErrorCode::kUnsupported,
         "chunks of {} tokens are not supported on a GPU: with {} experts a token, of {} x {}, they may have {}",
         limits.moe_tokens, limits.experts_per_token, limits.expert.hidden, limits.expert.intermediate, most);
}

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(Device& device, const OpsSpec& spec) {
  refuse_dtype(spec);
  refuse_sizes(spec.limits);
  auto* cuda_device = dynamic_cast<cuda::CudaDevice*>(&device);
  ZP_CHECK(cuda_device != nullptr, "device '{}' calls itself a GPU and is none", device.description());
  return std::make_unique<cuda::CudaOps>(*cuda_device, spec.limits);
}

DType cuda_activation_dtype(const Device& /*device*/) { return DType::kBf16; }

size_t cuda_scratch_bytes(const Device& /*device*/, const OpsSpec& spec) {
  refuse_dtype(spec);
  refuse_sizes(spec.limits);
  return cuda::CudaOps::scratch_bytes(spec.limits);
}

size_t cuda_matrix_bytes(const Device& /*device*/, const OpsSpec& spec, int64_t n, int64_t k) {
  refuse_dtype(spec);
  return static_cast<size_t>(n * k) * sizeof(Bf16);
}

size_t cuda_expert_bytes(const Device& /*device*/, const OpsSpec& spec, const ExpertSize& size) {
  refuse_dtype(spec);
  return cuda::ExpertLayout(size.hidden, size.intermediate).blob_bytes();
}

}  // namespace zp
