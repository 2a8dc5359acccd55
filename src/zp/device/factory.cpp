// Chooses the backend.
#include "zp/device/factory.h"

#include "zp/base/error.h"
#include "zp/device/cpu/cpu_device.h"
#include "zp/device/cuda_entry.h"

namespace zp {

std::unique_ptr<Device> make_device(const DeviceSpec& spec) {
  if (spec.threads < 0)
    fail(ErrorCode::kInvalidArgument, "threads is {}; it must be 0 (all cores) or more", spec.threads);
  switch (spec.kind) {
    case DeviceKind::kCpu: return std::make_unique<cpu::CpuDevice>(spec);
    case DeviceKind::kCuda: return make_cuda_device(spec.index);
  }
  fail(ErrorCode::kInvalidArgument, "unknown device kind {}", static_cast<int>(spec.kind));
}

}  // namespace zp
