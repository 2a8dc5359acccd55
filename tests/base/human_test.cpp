// How numbers are written for people.
#include "zp/base/human.h"

#include <gtest/gtest.h>

namespace zp {
namespace {

TEST(HumanBytes, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(uint64_t{1} << 50), "1024.00 TiB");
}

TEST(HumanCount, CountsInThousands) {
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(235'090'000'000), "235.09 G");
}

}  // namespace
}  // namespace zp
