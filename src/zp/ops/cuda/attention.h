// The host's part of attention: which kernel runs, and the metadata that it reads.
#pragma once

#include <vector>

#include "zp/device/cuda/cuda_device.h"
#include "zp/ops/cuda/attention_kernels.h"
#include "zp/ops/cuda/choices.h"
#include "zp/ops/cuda/staging.h"
#include "zp/ops/ops.h"

namespace zp::cuda {

/// Issues attention. Called within CudaStream::act().
void run_attention(CudaStream& stream, StagingRing& ring, const AttentionArgs& args, AttentionChoice choice,
                   const CudaDevice& device);

}  // namespace zp::cuda
