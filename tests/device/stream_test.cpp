// Streams and events of the CPU device: order, waiting across streams, and how a failure travels.
#include <array>
#include <atomic>
#include <future>
#include <numeric>
#include <thread>

#include "tests/support/errors.h"
#include "zp/device/cpu/cpu_device.h"

namespace zp::test {
namespace {

using cpu::CpuStream;

/// An act that waits until it is let go.
class Gate final {
 public:
  [[nodiscard]] std::function<void()> act() {
    return [this] { opened_.get_future().wait(); };
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

void fail_with(const char* message) { fail(ErrorCode::kDevice, "{}", message); }

TEST(Stream, RunsActsInOrder) {
  CpuStream stream("test");
  std::vector<int> seen;
  for (int i = 0; i < 3000; ++i) stream.enqueue([&seen, i] { seen.push_back(i); });  // more than its queue holds
  stream.synchronize();
  std::vector<int> wanted(3000);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(seen, wanted);
}

TEST(Stream, IssuingDoesNotWaitForTheAct) {
  Gate gate;
  CpuStream stream("test");
  stream.enqueue(gate.act());
  const Event event = stream.record();
  EXPECT_EQ(event.status(), EventStatus::kPending);
  gate.open();
  event.wait();
  EXPECT_EQ(event.status(), EventStatus::kDone);
}

TEST(Stream, CopiesBytesInOrderWithOtherActs) {
  CpuStream stream("test");
  std::array<int, 4> source{1, 2, 3, 4};
  std::array<int, 4> destination{};
  stream.copy(destination.data(), source.data(), sizeof(source));
  stream.enqueue([&] { destination[0] += 10; });
  stream.copy(source.data(), destination.data(), sizeof(int));
  stream.copy(nullptr, nullptr, 0);
  stream.synchronize();
  EXPECT_EQ(destination, (std::array<int, 4>{11, 2, 3, 4}));
  EXPECT_EQ(source[0], 11);
}

TEST(Stream, RunsWhatWasIssuedBeforeItIsDestroyed) {
  std::atomic<int> count{0};
  {
    CpuStream stream("test");
    for (int i = 0; i < 100; ++i) stream.enqueue([&] { ++count; });
  }
  EXPECT_EQ(count, 100);
}

TEST(Stream, WaitsForAnotherStreamsEvent) {
  Gate gate;
  CpuStream first("first");
  CpuStream second("second");
  int value = 0;
  int seen = -1;
  first.enqueue(gate.act());
  first.enqueue([&] { value = 7; });
  second.wait(first.record());
  second.enqueue([&] { seen = value; });
  const Event done = second.record();
  EXPECT_EQ(done.status(), EventStatus::kPending);
  gate.open();
  done.wait();
  EXPECT_EQ(seen, 7);
}

TEST(Stream, AnEventIsReachedBeforeLaterActs) {
  Gate gate;
  CpuStream stream("test");
  stream.enqueue([] {});
  const Event early = stream.record();
  stream.enqueue(gate.act());
  early.wait();
  EXPECT_EQ(early.status(), EventStatus::kDone);
  gate.open();
  stream.synchronize();
}

TEST(Stream, EventsOutliveTheirStream) {
  std::optional<Event> event;
  {
    CpuStream stream("test");
    event = stream.record();
  }
  event->wait();
  EXPECT_EQ(event->status(), EventStatus::kDone);
}

TEST(StreamFailure, SkipsLaterActsAndFailsLaterEvents) {
  CpuStream stream("test");
  bool ran = false;
  const Event before = stream.record();
  stream.enqueue([] { fail_with("the link is down"); });
  stream.enqueue([&] { ran = true; });
  const Event after = stream.record();
  expect_error([&] { stream.synchronize(); }, ErrorCode::kDevice, {"the link is down"});
  expect_error([&] { after.wait(); }, ErrorCode::kDevice, {"the link is down"});
  EXPECT_EQ(after.status(), EventStatus::kFailed);
  before.wait();
  EXPECT_EQ(before.status(), EventStatus::kDone);
  EXPECT_FALSE(ran);
}

TEST(StreamFailure, TravelsToStreamsThatWait) {
  CpuStream first("first");
  CpuStream second("second");
  CpuStream third("third");
  CpuStream bystander("bystander");
  first.enqueue([] { fail_with("first cause"); });
  second.wait(first.record());
  bool ran = false;
  second.enqueue([&] { ran = true; });
  third.wait(second.record());
  expect_error([&] { third.synchronize(); }, ErrorCode::kDevice, {"first cause"});
  expect_error([&] { second.record().wait(); }, ErrorCode::kDevice, {"first cause"});
  bystander.synchronize();
  EXPECT_FALSE(ran);
}

TEST(StreamFailure, IsTheFirstOne) {
  Gate gate;
  CpuStream bad("bad");
  bad.enqueue([] { fail_with("second"); });
  const Event second_failure = bad.record();
  CpuStream stream("test");
  stream.enqueue(gate.act());
  stream.enqueue([] { fail_with("first"); });
  stream.wait(second_failure);
  gate.open();
  expect_error([&] { stream.synchronize(); }, ErrorCode::kDevice, {"first"});
  expect_error([&] { stream.synchronize(); }, ErrorCode::kDevice, {"first"});
}

TEST(StreamFailure, NobodyNeedsToHearOfIt) {
  CpuStream stream("test");
  stream.enqueue([] { fail_with("unheard"); });
}

TEST(StreamFailure, ReachesEveryWaitingThread) {
  Gate gate;
  CpuStream stream("test");
  stream.enqueue(gate.act());
  stream.enqueue([] { fail_with("for all"); });
  const Event event = stream.record();
  std::atomic<int> heard{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        try {
          event.wait();
        } catch (const Error&) {
          ++heard;
        }
      });
    gate.open();
  }
  EXPECT_EQ(heard, 4);
}

}  // namespace
}  // namespace zp::test
