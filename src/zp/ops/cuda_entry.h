// The functions by which the factory reaches the CUDA backend; CMake links cuda/ or no_cuda/ behind them.
#pragma once

#include <memory>

#include "zp/ops/factory.h"

namespace zp {

/// `device` is a CUDA device. All throw kUnsupported when this build has no CUDA backend.
[[nodiscard]] std::unique_ptr<Ops> make_cuda_ops(Device& device, const OpsSpec& spec);
[[nodiscard]] DType cuda_activation_dtype(const Device& device);
[[nodiscard]] size_t cuda_scratch_bytes(const Device& device, const OpsSpec& spec);
[[nodiscard]] size_t cuda_matrix_bytes(const Device& device, const OpsSpec& spec, int64_t n, int64_t k);
[[nodiscard]] size_t cuda_expert_bytes(const Device& device, const OpsSpec& spec, const ExpertSize& size);

}  // namespace zp
