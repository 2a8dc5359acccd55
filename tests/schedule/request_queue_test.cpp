#include "zp/schedule/request_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <tuple>

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

// Against sorting them all by what the order is said to be.
TEST_F(RequestQueueTest, IsInTheSaidOrderWhateverComesAndLeaves) {
  struct Said {
    int32_t priority = 0;
    std::optional<int64_t> deadline_ns{};
    uint64_t age = 0;
  };
  std::mt19937 random(5);
  const auto below = [&](uint32_t limit) { return static_cast<int32_t>(random() % limit); };
  std::map<uint64_t, Said> waiting;
  uint64_t next_id = 1;
  int64_t pressing_ns = 0;
  for (int i = 0; i < 3000; ++i) {
    if (below(5) < 3) {
      const Said said{.priority = below(4) == 0 ? below(3) - 1 : 0,
                      .deadline_ns = below(3) == 0 ? std::optional<int64_t>(pressing_ns + below(400)) : std::nullopt,
                      .age = next_id};
      push(next_id, said.priority, said.deadline_ns);
      waiting.emplace(next_id++, said);
    } else if (!waiting.empty()) {
      const auto gone = std::next(waiting.begin(), below(static_cast<uint32_t>(waiting.size())));
      ASSERT_NE(remove(gone->first), nullptr);
      waiting.erase(gone);
    }
    pressing_ns += below(4);
    if (i % 10 != 0 || waiting.empty()) continue;
    const auto bypass_max = 1 + below(300);
    const uint64_t starved = queue_.bypassed() >= static_cast<uint64_t>(bypass_max) ? waiting.begin()->first : 0;
    std::vector<uint64_t> expected;
    for (const auto& entry : waiting) expected.push_back(entry.first);
    std::ranges::sort(expected, {}, [&](uint64_t id) {
      const Said& said = waiting.at(id);
      const bool presses = said.deadline_ns && *said.deadline_ns <= pressing_ns;
      return std::tuple(id != starved, -said.priority, !presses, presses ? *said.deadline_ns : 0, said.age);
    });
    ASSERT_EQ(order(pressing_ns, INT32_MAX, bypass_max), expected);
    const auto some = static_cast<size_t>(1 + below(static_cast<uint32_t>(expected.size())));
    expected.resize(some);
    ASSERT_EQ(order(pressing_ns, static_cast<int32_t>(some), bypass_max), expected);
  }
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
