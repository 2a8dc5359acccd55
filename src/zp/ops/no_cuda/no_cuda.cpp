// Stands in for the CUDA backend in builds without it.
#include "zp/base/error.h"
#include "zp/ops/cuda_entry.h"

namespace zp {
namespace {
[[noreturn]] void refuse() {
  fail(ErrorCode::kUnsupported,
       "cannot compute on a CUDA device: this build has no CUDA backend; use the device 'cpu'");
}
}  // namespace

std::unique_ptr<Ops> make_cuda_ops(Device& /*device*/, const OpsSpec& /*spec*/) { refuse(); }
DType cuda_activation_dtype(const Device& /*device*/) { refuse(); }
size_t cuda_scratch_bytes(const Device& /*device*/, const OpsSpec& /*spec*/) { refuse(); }
size_t cuda_matrix_bytes(const Device& /*device*/, const OpsSpec& /*spec*/, int64_t /*n*/, int64_t /*k*/) { refuse(); }
size_t cuda_expert_bytes(const Device& /*device*/, const OpsSpec& /*spec*/, const ExpertSize& /*size*/) { refuse(); }

}  // namespace zp
