// The one function by which the factory reaches the CUDA backend; CMake links cuda/ or no_cuda/ behind it.
#pragma once

#include <cstdint>
#include <memory>

#include "zp/device/device.h"

namespace zp {

/// Opens CUDA device `index`. Throws kUnsupported when this build has no CUDA backend.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(int32_t index);

}  // namespace zp
