// Chooses the backend.
#include "zp/ops/factory.h"

#include "zp/base/error.h"
#include "zp/ops/cuda_entry.h"
#include "zp/ops/reference/reference_ops.h"

namespace zp {
namespace {

DType activation_of(const Device& device, const OpsSpec& spec) {
  const DType activation = spec.activation.value_or(default_activation_dtype(device));
  if (activation != DType::kF32 && activation != DType::kBf16)
    fail(ErrorCode::kUnsupported, "cannot compute in {}: activations are f32 or bf16", to_string(activation));
  return activation;
}

}  // namespace

DType default_activation_dtype(const Device& device) {
  return device.kind() == DeviceKind::kCuda ? cuda_activation_dtype(device) : DType::kF32;
}

std::unique_ptr<Ops> make_ops(Device& device, const OpsSpec& spec) {
  if (device.kind() == DeviceKind::kCuda) {
    if (spec.reference) fail(ErrorCode::kUnsupported, "the reference operations run on the device 'cpu' only");
    return make_cuda_ops(device, spec);
  }
  const DType activation = activation_of(device, spec);
  return std::make_unique<reference::ReferenceOps>(device, activation);
}

size_t ops_scratch_bytes(const Device& device, const OpsSpec& spec) {
  if (device.kind() == DeviceKind::kCuda) return cuda_scratch_bytes(device, spec);
  return 0;
}

}  // namespace zp
