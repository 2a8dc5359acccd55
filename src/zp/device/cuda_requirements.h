// What the CUDA backend asks of a machine, as a function of what was found there, so that it is tested without a GPU.
#pragma once

#include <cstdint>
#include <string>

namespace zp {

/// What the CUDA runtime says of a machine. Versions are CUDA's: 1000 * major + 10 * minor; 0 means none.
struct CudaMachine {
  int32_t index = 0;            ///< of the GPU that is wanted
  int32_t driver_version = 0;   ///< the newest CUDA that the driver is for
  int32_t runtime_version = 0;  ///< the CUDA of this build
  int32_t gpus = 0;
  std::string refusal;  ///< why GPUs could not be counted, in CUDA's words; empty if they were
  std::string name;     ///< of the GPU; this and what follows only if there is one of that index
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
};

/// Why the GPU cannot be used, as a sentence for its user; empty if it can. Looks at the driver, then at the number of
/// GPUs, then at the GPU.
[[nodiscard]] std::string why_not_usable(const CudaMachine& machine);

}  // namespace zp
