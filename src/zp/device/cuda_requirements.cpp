// Decides whether a GPU can be used.
#include "zp/device/cuda_requirements.h"

#include <fmt/format.h>

namespace zp {
namespace {

// Kernels are compiled for this one (wgmma, bulk copies): sm_90a.
constexpr int32_t kMajor = 9;
constexpr int32_t kMinor = 0;

std::string version_text(int32_t version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::string why_not_usable(const CudaMachine& m) {
  if (m.driver_version == 0)
    return fmt::format("cannot open cuda:{}: this machine has no NVIDIA driver; use the device 'cpu'", m.index);
  // Within one major version a driver runs what is built for later minor ones.
  if (m.driver_version / 1000 < m.runtime_version / 1000)
    return fmt::format("cannot open cuda:{}: the driver is for CUDA {}; this build needs one for {}.0 or later",
                       m.index, version_text(m.driver_version), m.runtime_version / 1000);
  if (m.gpus == 0 && m.refusal.empty())
    return fmt::format("cannot open cuda:{}: this machine has no NVIDIA GPU; use the device 'cpu'", m.index);
  if (!m.refusal.empty()) return fmt::format("cannot open cuda:{}: {}", m.index, m.refusal);
  if (m.index < 0 || m.index >= m.gpus)
    return fmt::format("cannot open cuda:{}: this machine has {} GPU(s), counted from 0", m.index, m.gpus);
  if (m.compute_major != kMajor || m.compute_minor != kMinor)
    return fmt::format("cannot use cuda:{}: {} has compute capability {}.{}; the kernels are for {}.{} (Hopper) alone",
                       m.index, m.name, m.compute_major, m.compute_minor, kMajor, kMinor);
  return {};
}

}  // namespace zp
