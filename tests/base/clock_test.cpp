#include "zp/base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace zp {
namespace {

TEST(SteadyClock, NeverDecreases) {
  const SteadyClock clock;
  int64_t last_ns = clock.now_ns();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now_ns = clock.now_ns();
    ASSERT_GE(now_ns, last_ns);
    last_ns = now_ns;
  }
}

TEST(SteadyClock, CountsNanoseconds) {
  const SteadyClock clock;
  const int64_t begin_ns = clock.now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  // A sleep is never shorter than asked for, whatever else the machine does.
  EXPECT_GE(clock.now_ns() - begin_ns, 2'000'000);
}

}  // namespace
}  // namespace zp
