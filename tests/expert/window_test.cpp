// Who gets room, who waits for whom, and who does not: turns of the window, without any bytes.
#include "zp/expert/window.h"

#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "tests/support/errors.h"

namespace zp {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kNever = int64_t{3600} * 1'000'000'000;

bool is_ready(const auto& future) { return future.wait_for(20ms) == std::future_status::ready; }

TEST(ExpertWindow, StreamersAreAtMostItsDepthAheadOfTheSlowestRank) {
  ExpertWindow window({.ranks = 2, .depth = 3, .cycle = 5});
  EXPECT_FALSE(window.try_room(0)) << "nobody needs anything";
  (void)window.attach(0, 0);
  (void)window.attach(1, 0);
  for (int64_t turn = 0; turn < 3; ++turn) EXPECT_EQ(window.try_room(0)->turn, turn);
  EXPECT_FALSE(window.try_room(0));
  window.pulled(0, {});
  EXPECT_FALSE(window.try_room(0)) << "rank 1 has not pulled turn 0";
  window.pulled(1, {});
  EXPECT_EQ(window.try_room(0)->turn, 3);
  EXPECT_EQ(window.try_room(1)->turn, 1) << "each streamer goes at its own pace; turn 0 is needed no more";
}

TEST(ExpertWindow, ARankIsNeverMoreThanItsDepthAheadOfAnother) {
  ExpertWindow window({.ranks = 2, .depth = 2, .cycle = 5, .patience_ns = 0});
  (void)window.attach(0, 0);
  (void)window.attach(1, 0);
  for (int64_t turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(window.await_shares(0)->peers_ready_ns, 0);
    window.pulled(0, {});
  }
  auto third = std::async(std::launch::async, [&] { return window.await_shares(0); });
  EXPECT_FALSE(is_ready(third));
  (void)window.await_shares(1);
  window.pulled(1, {});
  const auto shares = third.get();
  EXPECT_EQ(shares->turn, 2);
  EXPECT_GT(shares->peers_ready_ns, 0) << "it waited for rank 1";
}

TEST(ExpertWindow, AnIdleRankHoldsUpNobody) {
  ExpertWindow window({.ranks = 2, .depth = 2, .cycle = 5, .patience_ns = 0});
  (void)window.attach(0, 0);
  (void)window.attach(1, 0);
  window.detach(1);
  for (int64_t turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(window.await_shares(0)->turn, turn);
    window.pulled(0, {});
  }
  // Back again for layer 0, it comes in where the other one will be at layer 0 next, and holds it up there.
  (void)window.attach(1, 0);
  EXPECT_EQ(window.await_shares(1)->turn, 20);
  (void)window.await_shares(0);
  window.pulled(0, {});
  (void)window.await_shares(0);
  window.pulled(0, {});
  auto ahead = std::async(std::launch::async, [&] { return window.await_shares(0); });
  EXPECT_FALSE(is_ready(ahead));
  window.detach(1);
  EXPECT_EQ(ahead.get()->turn, 22);
}

TEST(ExpertWindow, ARankThatMissedLittleCatchesUpFromTheHost) {
  ExpertWindow window({.ranks = 2, .depth = 2, .cycle = 30, .patience_ns = kNever});
  (void)window.attach(0, 0);
  for (int64_t turn = 0; turn < 5; ++turn) {
    for (const int32_t rank : {0, 1}) window.publish(rank, window.try_room(rank)->turn);
    EXPECT_EQ(window.await_shares(0)->late, std::vector<bool>({false, false}));
    window.pulled(0, {});
  }
  (void)window.attach(1, 0);  // missed 5 turns of 30
  for (int64_t turn = 0; turn < 5; ++turn) {
    const auto shares = window.await_shares(1);
    EXPECT_EQ(shares->turn, turn);
    const bool gone = turn < 3;  // the window still has turns 3 and 4
    EXPECT_EQ(shares->late, std::vector<bool>({gone, gone})) << turn;
    window.pulled(1, {});
  }
}

TEST(ExpertWindow, ALateShareIsNotWaitedForForEver) {
  ExpertWindow window({.ranks = 2, .depth = 2, .cycle = 5, .patience_ns = 1'000'000});
  (void)window.attach(0, 0);
  window.publish(0, window.try_room(0)->turn);
  (void)window.try_room(1);  // begun, but its link is stuck
  EXPECT_EQ(window.await_shares(0)->late, std::vector<bool>({false, true}));
}

TEST(ExpertWindow, ASharesReaderWaitsUntilItIsPublished) {
  ExpertWindow window({.ranks = 2, .depth = 2, .cycle = 5, .patience_ns = kNever});
  (void)window.attach(0, 0);
  window.publish(0, window.try_room(0)->turn);
  (void)window.try_room(1);
  auto shares = std::async(std::launch::async, [&] { return window.await_shares(0); });
  EXPECT_FALSE(is_ready(shares));
  window.publish(1, 0);
  const auto there = shares.get();
  EXPECT_EQ(there->late, std::vector<bool>({false, false}));
  EXPECT_GT(there->peers_ready_ns, 0);
}

TEST(ExpertWindow, FailuresLeavingAndClosingWakeWhoeverWaits) {
  ExpertWindow window({.ranks = 2, .depth = 1, .cycle = 5, .patience_ns = kNever});
  (void)window.attach(0, 0);
  (void)window.attach(1, 0);
  auto streamer = std::async(std::launch::async, [&] {
    (void)window.await_room(0);
    return window.await_room(0);
  });
  auto leaver = std::async(std::launch::async, [&] { return window.await_shares(1); });
  EXPECT_FALSE(is_ready(leaver));
  window.leave(1);
  EXPECT_FALSE(leaver.get());
  auto reader = std::async(std::launch::async, [&] { return window.await_shares(0); });
  window.fail(std::make_exception_ptr(Error(ErrorCode::kDevice, "rank 1 has ended")));
  window.fail(std::make_exception_ptr(Error(ErrorCode::kDevice, "another one")));
  test::expect_error([&] { (void)reader.get(); }, ErrorCode::kDevice, {"rank 1 has ended"});
  EXPECT_FALSE(streamer.get());
  ExpertWindow closed({.ranks = 1, .depth = 1, .cycle = 1});
  auto waiting = std::async(std::launch::async, [&] { return closed.await_room(0); });
  closed.close();
  EXPECT_FALSE(waiting.get());
}

// Ranks come and go at random; each sees the layers of the cycle in order, and no share is overwritten that an attached
// rank still needs.
TEST(ExpertWindow, RandomRanksSeeEveryLayerInOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const auto ranks = static_cast<int32_t>(1 + random() % 4);
    const auto depth = static_cast<int32_t>(1 + random() % 4);
    const auto cycle = static_cast<int64_t>(1 + random() % 7);
    ExpertWindow window({.ranks = ranks, .depth = depth, .cycle = cycle, .patience_ns = 0, .patience_shares = 0});
    std::vector<int64_t> phase(static_cast<size_t>(ranks));
    std::vector<bool> attached(static_cast<size_t>(ranks));
    std::vector<std::vector<int64_t>> held(static_cast<size_t>(ranks),
                                           std::vector<int64_t>(static_cast<size_t>(depth), -1));
    std::vector<int64_t> position(static_cast<size_t>(ranks));
    for (int32_t i = 0; i < 2000; ++i) {
      const auto rank = static_cast<int32_t>(random() % static_cast<uint64_t>(ranks));
      const auto r = static_cast<size_t>(rank);
      const uint64_t action = random() % 8;
      if (action < 3) {
        const auto room = window.try_room(rank);
        if (!room) continue;
        int64_t& place = held[r][static_cast<size_t>(room->turn % depth)];
        for (size_t other = 0; other < attached.size(); ++other)
          ASSERT_FALSE(attached[other] && place >= position[other]) << "turn " << place << " was needed, seed " << seed;
        place = room->turn;
        window.publish(rank, room->turn);
      } else if (!attached[r]) {
        position[r] = window.attach(rank, phase[r]);
        attached[r] = true;
        ASSERT_EQ(position[r] % cycle, phase[r]) << "seed " << seed;
      } else if (action == 3) {
        window.detach(rank);
        attached[r] = false;
      } else {
        // Only a rank that would not wait asks, since this is one thread.
        int64_t lowest = position[r];
        for (size_t other = 0; other < attached.size(); ++other)
          if (attached[other]) lowest = std::min(lowest, position[other]);
        if (position[r] >= lowest + depth) continue;
        const auto shares = window.await_shares(rank);
        ASSERT_EQ(shares->turn, position[r]) << "seed " << seed;
        for (size_t source = 0; source < held.size(); ++source)
          if (!shares->late[source]) {
            ASSERT_EQ(held[source][static_cast<size_t>(shares->turn % depth)], shares->turn) << "seed " << seed;
          }
        window.pulled(rank, {});
        position[r] = shares->turn + 1;
        phase[r] = (phase[r] + 1) % cycle;
      }
    }
  }
}

}  // namespace
}  // namespace zp
