// Stands in for the CUDA backend in builds without it.
#include "zp/base/error.h"
#include "zp/device/cuda_entry.h"

namespace zp {

std::unique_ptr<Device> make_cuda_device(int32_t index) {
  fail(ErrorCode::kUnsupported, "cannot open cuda:{}: this build has no CUDA backend; use the device 'cpu'", index);
}

}  // namespace zp
