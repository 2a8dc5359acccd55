// Which device one gets.
#include "zp/device/factory.h"

#include "tests/support/errors.h"
#include "zp/base/host_info.h"

namespace zp::test {
namespace {

TEST(DeviceFactory, OpensTheCpuWithAllUsableCores) {
  const auto device = make_device({});
  EXPECT_EQ(device->kind(), DeviceKind::kCpu);
  EXPECT_NE(device->description().find(std::to_string(usable_cores()) + " threads"), std::string::npos);
}

TEST(DeviceFactory, RefusesNegativeThreads) {
  expect_error([] { (void)make_device({.threads = -1}); }, ErrorCode::kInvalidArgument, {"threads is -1"});
}

}  // namespace
}  // namespace zp::test
