#include "zp/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace zp {
namespace {

TEST(BoundedQueue, IsFirstInFirstOut) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.push(i));
  EXPECT_EQ(queue.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), std::optional(i));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BoundedQueue, TryPopOfAnEmptyQueueReturnsNothing) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
  ASSERT_TRUE(queue.push(5));
  EXPECT_EQ(queue.try_pop(), std::optional(5));
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueue, MovesItemsThatCannotBeCopied) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  ASSERT_TRUE(queue.push(std::make_unique<int>(9)));
  const std::optional<std::unique_ptr<int>> item = queue.pop();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(**item, 9);
}

TEST(BoundedQueueDeathTest, NeedsRoomForOneItem) {
  EXPECT_DEATH(BoundedQueue<int>(0), "a queue needs room for one item, got capacity 0");
}

TEST(BoundedQueue, ClosedRefusesPushesAndDrainsWhatItAccepted) {
  BoundedQueue<int> queue(4);
  ASSERT_TRUE(queue.push(1));
  ASSERT_TRUE(queue.push(2));
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), std::optional(1));
  EXPECT_EQ(queue.try_pop(), std::optional(2));
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueue, CloseMayBeCalledTwice) {
  BoundedQueue<int> queue(1);
  queue.close();
  queue.close();
  EXPECT_FALSE(queue.push(1));
  EXPECT_EQ(queue.pop(), std::nullopt);
}

// The sleeps below only make it likely that the other thread already blocks; the result is the same when it does not.
constexpr auto kLongEnoughToBlock = std::chrono::milliseconds(5);

TEST(BoundedQueue, CloseWakesEveryBlockedPop) {
  BoundedQueue<int> queue(1);
  std::vector<std::jthread> consumers;
  std::atomic<int> woken = 0;
  for (int i = 0; i < 3; ++i) {
    consumers.emplace_back([&] {
      if (!queue.pop().has_value()) ++woken;
    });
  }
  std::this_thread::sleep_for(kLongEnoughToBlock);
  queue.close();
  consumers.clear();
  EXPECT_EQ(woken, 3);
}

TEST(BoundedQueue, CloseWakesEveryBlockedPushAndTakesNothingFromIt) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(7));
  std::vector<std::jthread> producers;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 3; ++i) {
    producers.emplace_back([&] {
      if (!queue.push(8)) ++refused;
    });
  }
  std::this_thread::sleep_for(kLongEnoughToBlock);
  queue.close();
  producers.clear();
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(queue.pop(), std::optional(7));
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, PushBlocksUntilThereIsRoom) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(1));
  std::atomic<bool> pushed = false;
  std::jthread producer([&] { pushed = queue.push(2); });
  std::this_thread::sleep_for(kLongEnoughToBlock);
  EXPECT_FALSE(pushed);
  EXPECT_EQ(queue.pop(), std::optional(1));
  EXPECT_EQ(queue.pop(), std::optional(2));
  producer.join();
  EXPECT_TRUE(pushed);
}

TEST(BoundedQueue, OneProducersItemsReachOneConsumerInOrder) {
  constexpr int kItemCount = 2000;
  BoundedQueue<int> queue(3);
  std::jthread producer([&] {
    for (int i = 0; i < kItemCount; ++i) ASSERT_TRUE(queue.push(i));
    queue.close();
  });
  int expected = 0;
  while (const std::optional<int> item = queue.pop()) {
    ASSERT_EQ(*item, expected);
    ++expected;
    ASSERT_LE(queue.size(), 3u);
  }
  EXPECT_EQ(expected, kItemCount);
}

TEST(BoundedQueue, ManyThreadsLoseNothingAndKeepEachProducersOrder) {
  constexpr std::size_t kProducerCount = 3;
  constexpr std::size_t kConsumerCount = 3;
  constexpr int kItemsPerProducer = 500;
  struct Item {
    std::size_t producer;
    int sequence;
  };
  BoundedQueue<Item> queue(4);
  std::vector<std::vector<Item>> taken(kConsumerCount);  // taken[c] is written by consumer c alone
  std::vector<std::jthread> consumers;
  for (std::size_t c = 0; c < kConsumerCount; ++c) {
    consumers.emplace_back([&queue, &mine = taken[c]] {
      while (const std::optional<Item> item = queue.pop()) mine.push_back(*item);
    });
  }
  {
    std::vector<std::jthread> producers;
    for (std::size_t p = 0; p < kProducerCount; ++p) {
      producers.emplace_back([&queue, p] {
        for (int i = 0; i < kItemsPerProducer; ++i) ASSERT_TRUE(queue.push({.producer = p, .sequence = i}));
      });
    }
  }
  queue.close();
  consumers.clear();

  std::vector<std::vector<int>> times_seen(kProducerCount, std::vector<int>(kItemsPerProducer, 0));
  for (const std::vector<Item>& mine : taken) {
    std::vector<int> last(kProducerCount, -1);
    for (const Item& item : mine) {
      EXPECT_GT(item.sequence, last[item.producer]) << "producer " << item.producer << " was overtaken by itself";
      last[item.producer] = item.sequence;
      ++times_seen[item.producer][static_cast<std::size_t>(item.sequence)];
    }
  }
  for (const std::vector<int>& producer : times_seen) {
    for (const int times : producer) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace zp
