#include "zp/base/host_info.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace zp {
namespace {

TEST(HostInfo, UsableCoresAreAtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int32_t>(std::thread::hardware_concurrency()));
}

TEST(HostInfo, AvailableMemoryLiesWithinTheLimit) {
  const HostMemory memory = host_memory();
  EXPECT_GT(memory.limit_bytes, size_t{1} << 20);
  EXPECT_GT(memory.available_bytes, 0u);
  EXPECT_LE(memory.available_bytes, memory.limit_bytes);
}

TEST(HostInfo, PeakResidentSizeGrowsWithWhatIsTouchedAndNeverShrinks) {
  const size_t before_bytes = peak_resident_bytes();
  constexpr size_t kTouchedBytes = size_t{64} << 20;
  { const std::vector<char> touched(kTouchedBytes, 'x'); }
  const size_t after_bytes = peak_resident_bytes();
  EXPECT_GE(after_bytes, before_bytes);
  // The process may have peaked higher before, while it started; it did not touch 64 MiB then.
  EXPECT_GE(after_bytes, kTouchedBytes);
}

}  // namespace
}  // namespace zp
