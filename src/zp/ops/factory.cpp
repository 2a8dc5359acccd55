// Chooses the backend.
#include "zp/ops/factory.h"

#include <algorithm>

#include "zp/base/error.h"
#include "zp/ops/cpu/attention.h"
#include "zp/ops/cpu/cpu_ops.h"
#include "zp/ops/cpu/gemm.h"
#include "zp/ops/cpu/paced_ops.h"
#include "zp/ops/cuda_entry.h"
#include "zp/ops/cuda_limits.h"
#include "zp/ops/reference/reference_ops.h"

namespace zp {
namespace {

DType activation_of(const Device& device, const OpsSpec& spec) {
  const DType activation = spec.activation.value_or(default_activation_dtype(device));
  if (activation != DType::kF32 && activation != DType::kBf16)
    fail(ErrorCode::kUnsupported, "cannot compute in {}: activations are f32 or bf16", to_string(activation));
  return activation;
}

// What the scratch memory of a thread cannot hold.
void refuse_sizes(const OpsLimits& limits, DType activation) {
  if (limits.head_dim > cpu::kHeadDimMax)
    fail(ErrorCode::kUnsupported, "head dimension {} is not supported on a CPU; the limit is {}", limits.head_dim,
         cpu::kHeadDimMax);
  const int64_t k = std::max({limits.linear_k, limits.expert.hidden, limits.expert.intermediate});
  const cpu::Kernels& kernels = cpu::kernels_of(cpu::detect_isa());
  const cpu::GemmKernels& gemm = activation == DType::kBf16 ? kernels.gemm_bf16 : kernels.gemm_f32;
  const int64_t tile_bytes = gemm.tile_bytes(cpu::PanelLayout{activation}.padded_k(k));
  constexpr auto kTileBytesMax = static_cast<int64_t>(cpu::ThreadScratch::kRowsBytes);
  if (tile_bytes > kTileBytesMax)
    fail(ErrorCode::kUnsupported,
         "matrices with rows of {} elements are not supported on a CPU: a tile of them has {} bytes; the limit is {}",
         k, tile_bytes, kTileBytesMax);
}

}  // namespace

DType default_activation_dtype(const Device& device) {
  if (device.kind() == DeviceKind::kCuda) return cuda_activation_dtype(device);
  return cpu::detect_isa() >= cpu::Isa::kAvx512 ? DType::kBf16 : DType::kF32;
}

std::unique_ptr<Ops> make_ops(Device& device, const OpsSpec& spec) {
  if (device.kind() == DeviceKind::kCuda) {
    if (spec.reference) fail(ErrorCode::kUnsupported, "the reference operations run on the device 'cpu' only");
    return make_cuda_ops(device, spec);
  }
  if (spec.paced_flops_per_second > 0) {
    OpsSpec unpaced = spec;
    unpaced.paced_flops_per_second = 0;
    auto* paced_device = dynamic_cast<cpu::CpuDevice*>(&device);
    ZP_CHECK(paced_device != nullptr, "device '{}' calls itself a CPU and is none", device.description());
    return std::make_unique<cpu::PacedOps>(*paced_device, make_ops(device, unpaced),
                                           cpu::Pace{spec.paced_flops_per_second, spec.paced_attention_keys});
  }
  const DType activation = activation_of(device, spec);
  if (spec.reference) return std::make_unique<reference::ReferenceOps>(device, activation);
  refuse_sizes(spec.limits, activation);
  auto* cpu_device = dynamic_cast<cpu::CpuDevice*>(&device);
  ZP_CHECK(cpu_device != nullptr, "device '{}' calls itself a CPU and is none", device.description());
  return std::make_unique<cpu::CpuOps>(*cpu_device, cpu::detect_isa(), activation, spec.limits);
}

size_t ops_scratch_bytes(const Device& device, const OpsSpec& spec) {
  if (device.kind() == DeviceKind::kCuda) return cuda_scratch_bytes(device, spec);
  if (spec.reference) return 0;
  const auto* cpu_device = dynamic_cast<const cpu::CpuDevice*>(&device);
  ZP_CHECK(cpu_device != nullptr, "device '{}' calls itself a CPU and is none", device.description());
  return cpu::CpuOps::scratch_bytes(cpu_device->pool().threads(), activation_of(device, spec), spec.limits);
}

size_t ops_pinned_bytes(const Device& device) { return device.kind() == DeviceKind::kCuda ? cuda::kOpsPinnedBytes : 0; }

OpsTokenLimits ops_token_limits(const Device& device, int64_t heads_per_kv_head) {
  if (device.kind() != DeviceKind::kCuda) return {};
  return {.sequence = cuda::sequence_tokens_max(heads_per_kv_head), .step = cuda::kEmbeddedTokensMax};
}

size_t packed_matrix_bytes(const Device& device, const OpsSpec& spec, int64_t n, int64_t k) {
  if (device.kind() == DeviceKind::kCuda) return cuda_matrix_bytes(device, spec, n, k);
  const DType activation = activation_of(device, spec);
  if (spec.reference) return reference::matrix_bytes(activation, n, k);
  return static_cast<size_t>(cpu::panel_count(n)) * cpu::PanelLayout{activation}.panel_bytes(k);
}

size_t packed_expert_bytes(const Device& device, const OpsSpec& spec, const ExpertSize& size) {
  if (device.kind() == DeviceKind::kCuda) return cuda_expert_bytes(device, spec, size);
  const DType activation = activation_of(device, spec);
  if (spec.reference) return reference::expert_bytes(activation, size);
  return cpu::ExpertLayout(cpu::PanelLayout{activation}, size).blob_bytes();
}

}  // namespace zp
