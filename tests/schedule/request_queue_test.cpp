#include "zp/schedule/request_queue.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/schedule/scheduler_under_test.h"

namespace zp {
namespace {

class RequestQueueTest : public testing::Test {
 protected:
  void push(uint64_t id, int32_t priority = 0, std::optional<int64_t> deadline_ns = {}) {
    auto request = std::make_unique<QueuedRequest>();
    request->request = request_of(id, {1});
    request->request.priority = priority;
    request->request.deadline_ns = deadline_ns;
    queue_.push(std::move(request));
    queue_.check_invariants();
  }
  std::unique_ptr<QueuedRequest> remove(uint64_t id) {
    auto request = queue_.remove(id);
    queue_.check_invariants();
    return request;
  }
  std::vector<uint64_t> order(int64_t pressing_ns = 0, int32_t look_ahead = 100, int32_t bypass_max = 1000) {
    std::vector<uint64_t> out;
    for (const QueuedRequest* request :
         queue_.window({.pressing_ns = pressing_ns, .look_ahead = look_ahead, .bypass_max = bypass_max}))
      out.push_back(request->request.id);
    return out;
  }

  RequestQueue queue_;
};

TEST_F(RequestQueueTest, IsInOrderOfArrival) {
  for (const uint64_t id : {5, 3, 9}) push(id);
  EXPECT_EQ(order(), list({5, 3, 9}));
  EXPECT_EQ(order(0, 2), list({5, 3}));
}

TEST_F(RequestQueueTest, HigherPrioritiesGoFirst) {
  push(1, 0);
  push(2, 5);
  push(3, -1);
  push(4, 5);
  push(5, std::numeric_limits<int32_t>::min());
  push(6, std::numeric_limits<int32_t>::max());
  EXPECT_EQ(order(), list({6, 2, 4, 1, 3, 5}));
}

TEST_F(RequestQueueTest, PressingDeadlinesGoFirstWithinTheirPriority) {
  push(1);
  push(2, 0, 300);
  push(3, 0, 200);
  push(4, 1);
  push(5, 0, 900);
  push(6, 1, 250);
  EXPECT_EQ(order(100), list({4, 6, 1, 2, 3, 5}));  // nothing presses
  EXPECT_EQ(order(300), list({6, 4, 3, 2, 1, 5}));
  EXPECT_EQ(order(300, 3), list({6, 4, 3}));
}

TEST_F(RequestQueueTest, TheOldestGoesFirstOnceEnoughYoungerOnesLeft) {
  push(1, 0);
  push(2, 0);
  for (uint64_t id = 10; id < 14; ++id) {
    push(id, 1);
    EXPECT_EQ(queue_.bypassed(), id - 10);
    EXPECT_EQ(order(0, 10, 4).front(), id);
    static_cast<void>(remove(id));
  }
  push(20, 1);
  EXPECT_EQ(order(0, 10, 4), list({1, 20, 2}));
  static_cast<void>(remove(1));
  EXPECT_EQ(order(0, 10, 4), list({2, 20}));
}

TEST_F(RequestQueueTest, OlderOnesThatLeaveAreNoBypass) {
  for (uint64_t id = 1; id <= 5; ++id) push(id);
  for (uint64_t id = 1; id <= 4; ++id) static_cast<void>(remove(id));
  EXPECT_EQ(queue_.bypassed(), 0U);
}

TEST_F(RequestQueueTest, ARequestThatComesBackHasItsOldPlace) {
  for (uint64_t id = 1; id <= 3; ++id) push(id);
  std::unique_ptr<QueuedRequest> first = remove(1);
  push(4);
  queue_.push(std::move(first));
  queue_.check_invariants();
  EXPECT_EQ(order(), list({1, 2, 3, 4}));
  EXPECT_EQ(queue_.bypassed(), 0U);
}

TEST_F(RequestQueueTest, KnowsWhomItHas) {
  push(1);
  EXPECT_NE(queue_.find(1), nullptr);
  EXPECT_EQ(queue_.find(2), nullptr);
  EXPECT_EQ(remove(2), nullptr);
  EXPECT_NE(remove(1), nullptr);
  EXPECT_EQ(queue_.size(), 0);
  EXPECT_TRUE(order().empty());
}

}  // namespace
}  // namespace zp
