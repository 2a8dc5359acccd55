#include "zp/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace zp {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int32_t> {};

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 5));

TEST_P(ThreadPoolTest, RunsEachIndexOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const size_t count : {0u, 1u, 2u, 7u, 1000u}) {
    std::vector<int> times(count, 0);  // No index is shared, so no lock is needed; ThreadSanitizer agrees or tells.
    pool.parallel_for(static_cast<int64_t>(count),
                      [&](int64_t index, int32_t) { ++times[static_cast<size_t>(index)]; });
    for (const int time : times) EXPECT_EQ(time, 1);
  }
}

TEST_P(ThreadPoolTest, NegativeCountsRunNothing) {
  ThreadPool pool(GetParam());
  pool.parallel_for(-1, [](int64_t, int32_t) { FAIL() << "there is no index"; });
}

TEST_P(ThreadPoolTest, TwoIndicesOfOneThreadNumberNeverRunAtOnce) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> scratch(static_cast<size_t>(GetParam()), 0);  // a race here is a shared thread number
  pool.parallel_for(2000, [&](int64_t, int32_t thread) {
    ASSERT_GE(thread, 0);
    ASSERT_LT(thread, GetParam());
    ++scratch[static_cast<size_t>(thread)];
  });
  int64_t sum = 0;
  for (const int64_t mine : scratch) sum += mine;
  EXPECT_EQ(sum, 2000);
}

TEST_P(ThreadPoolTest, WhatTheBodyWroteIsSeenAfterReturn) {
  ThreadPool pool(GetParam());
  std::vector<int> values(64, 0);
  for (int round = 1; round <= 200; ++round) {
    pool.parallel_for(64, [&](int64_t index, int32_t) { values[static_cast<size_t>(index)] = round; });
    for (const int value : values) ASSERT_EQ(value, round);
  }
}

TEST_P(ThreadPoolTest, RethrowsAnExceptionAndGoesOnWorking) {
  ThreadPool pool(GetParam());
  std::atomic<int> running = 0;
  EXPECT_THROW(pool.parallel_for(100,
                                 [&](int64_t index, int32_t) {
                                   ++running;
                                   if (index == 3) {
                                     --running;
                                     throw std::runtime_error("index 3");
                                   }
                                   --running;
                                 }),
               std::runtime_error);
  EXPECT_EQ(running, 0) << "parallel_for returned while a body ran";
  std::atomic<int> done = 0;
  pool.parallel_for(10, [&](int64_t, int32_t) { ++done; });
  EXPECT_EQ(done, 10);
}

TEST(ThreadPool, IsDestroyedWithoutEverHavingWorked) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(4);
}

TEST(ThreadPoolDeathTest, NeedsAThread) { EXPECT_DEATH(ThreadPool(0), "a pool needs a thread, got 0"); }

}  // namespace
}  // namespace zp
