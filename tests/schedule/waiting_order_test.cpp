// Chunks against a sorted map.
#include "zp/schedule/waiting_order.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

namespace zp {
namespace {

/// Both the order and the map that it should agree with.
class Pair {
 public:
  using Key = std::tuple<int64_t, int64_t, uint64_t>;

  explicit Pair(WaitingOrder::By by) : by_(by), order_(by) {}

  void insert(const Waiting& waiting) {
    order_.insert(waiting);
    ASSERT_TRUE(map_.emplace(key_of(waiting), waiting.sequence).second);
  }
  void erase(const Waiting& waiting) {
    order_.erase(waiting);
    ASSERT_EQ(map_.erase(key_of(waiting)), 1U);
  }
  void compare(int32_t priority) {
    order_.check_invariants();
    ASSERT_EQ(order_.size(), map_.size());
    auto expected = map_.lower_bound({-int64_t{priority}, std::numeric_limits<int64_t>::min(), 0});
    order_.visit_from(priority, [&](const Waiting& waiting) {
      EXPECT_NE(expected, map_.end());
      if (expected == map_.end()) return false;
      EXPECT_EQ(waiting.sequence, expected->second);
      ++expected;
      return true;
    });
    ASSERT_EQ(expected, map_.end());
  }
  WaitingOrder& order() { return order_; }

 private:
  [[nodiscard]] Key key_of(const Waiting& waiting) const {
    return {-int64_t{waiting.priority}, by_ == WaitingOrder::By::kDeadline ? waiting.deadline_ns : 0, waiting.sequence};
  }

  WaitingOrder::By by_;
  WaitingOrder order_;
  std::map<Key, uint64_t> map_;
};

TEST(WaitingOrder, AgreesWithASortedMap) {
  for (const auto by : {WaitingOrder::By::kArrival, WaitingOrder::By::kDeadline}) {
    for (uint32_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      std::mt19937 random(seed);
      const auto below = [&](size_t limit) { return random() % limit; };
      Pair pair(by);
      std::vector<Waiting> in;
      std::vector<Waiting> out;
      uint64_t sequence = 1;
      const bool in_order = seed % 3 == 0;
      // Grows to a few thousand, then shrinks to nothing.
      for (int round = 0; round < 60; ++round) {
        for (size_t i = 0; i < 100; ++i) {
          const bool adds = round < 40 ? below(4) != 0 : below(8) == 0;
          if (adds && !out.empty() && below(3) == 0) {
            const size_t back = below(out.size());
            pair.insert(out[back]);
            in.push_back(out[back]);
            out.erase(out.begin() + static_cast<std::ptrdiff_t>(back));
          } else if (adds) {
            in.push_back({.sequence = sequence++,
                          .deadline_ns = static_cast<int64_t>(below(50)),
                          .priority = in_order ? 0 : static_cast<int32_t>(below(5)) - 2});
            pair.insert(in.back());
          } else if (!in.empty()) {
            const size_t gone = below(3) == 0 ? 0 : below(in.size());
            pair.erase(in[gone]);
            out.push_back(in[gone]);
            in.erase(in.begin() + static_cast<std::ptrdiff_t>(gone));
          }
        }
        pair.compare(static_cast<int32_t>(below(7)) - 3);
        pair.compare(std::numeric_limits<int32_t>::max());
        if (testing::Test::HasFatalFailure()) return;
      }
      for (const Waiting& waiting : in) pair.erase(waiting);
      pair.compare(0);
    }
  }
}

TEST(WaitingOrder, FindsByKeyAndStopsWhenToldTo) {
  WaitingOrder order(WaitingOrder::By::kArrival);
  EXPECT_EQ(order.find({.sequence = 1}), nullptr);
  for (uint64_t i = 1; i <= 1000; ++i) order.insert({.sequence = 2 * i, .tokens = static_cast<int32_t>(i)});
  EXPECT_EQ(order.find({.sequence = 700})->tokens, 350);
  EXPECT_EQ(order.find({.sequence = 701}), nullptr);
  EXPECT_EQ(order.find({.sequence = 700, .priority = 1}), nullptr);
  int32_t seen = 0;
  order.visit_from(0, [&](const Waiting& /*waiting*/) { return ++seen < 600; });
  EXPECT_EQ(seen, 600);
  order.visit_from(-1, [&](const Waiting& /*waiting*/) { return ++seen < 1000; });
  EXPECT_EQ(seen, 600);
}

}  // namespace
}  // namespace zp
