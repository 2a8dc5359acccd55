// What a device and its links can do, in numbers. plan/hardware_file.h reads them from a file; calibration measures
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zp {

/// FLOP/s by kind of matrix product. They differ: attention, dense products and grouped products of experts have
/// different kernels.
struct OperationRates {
  double attention = 0;
  double dense = 0;
  double expert = 0;
  friend bool operator==(const OperationRates&, const OperationRates&) = default;
};

/// One device of several alike. Bytes a second are one direction's.
struct HardwareProfile {
  std::string name;
  uint64_t memory_bytes = 0;    ///< that a process can allocate
  double memory_bandwidth = 0;  ///< bytes/s, of device memory
  double peer_bandwidth = 0;    ///< bytes/s that a device receives from the others together; 0: there is no such link
  double host_bandwidth = 0;    ///< bytes/s from pinned host memory, each device its own
  double peak_bf16 = 0;         ///< FLOP/s, dense, by the data sheet
  double peak_fp8 = 0;          ///< likewise; 0: it has no fp8
  OperationRates achieved_bf16{};
  double achieved_fp8_expert = 0;     ///< FLOP/s of grouped products of fp8 experts
  int64_t efficient_step_tokens = 0;  ///< from here on kernels run at about the achieved rates; of simulated steps
};

/// All contradictions found ("peer_bandwidth is -1; it must not be negative"); empty when there are none.
[[nodiscard]] std::vector<std::string> validate(const HardwareProfile& profile);

}  // namespace zp
