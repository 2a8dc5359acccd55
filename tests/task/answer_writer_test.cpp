// Are lines written in order, early, whole, and by any thread?
#include "zp/task/answer_writer.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using test::message_of;
using test::read_file;

TEST(AnswerWriter, WritesInInputOrderWhateverTheOrderOfArrival) {
  const test::TempFolder folder;
  AnswerWriter writer(folder.file("out"));
  std::vector<int64_t> order(500);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  std::string expected;
  for (const int64_t row : order) writer.write(row, std::to_string(row));
  EXPECT_EQ(writer.close(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(read_file(folder.file("out")), expected);
}

TEST(AnswerWriter, WritesALineAsSoonAsAllBeforeItAreThere) {
  const test::TempFolder folder;
  AnswerWriter writer(folder.file("out"));
  writer.write(1, "b");
  EXPECT_EQ(read_file(folder.file("out")), "");
  EXPECT_EQ(writer.held_count(), 1u);
  writer.write(0, "a");
  EXPECT_EQ(read_file(folder.file("out")), "a\nb\n");
  EXPECT_EQ(writer.held_count(), 0u);
}

TEST(AnswerWriter, EmptiesTheFileAtTheStart) {
  const test::TempFolder folder;
  test::write_file(folder.file("out"), "old\nold\nold\n");
  AnswerWriter writer(folder.file("out"));
  EXPECT_EQ(read_file(folder.file("out")), "");
  writer.write(0, "new");
  EXPECT_EQ(writer.close(), 0);
  EXPECT_EQ(read_file(folder.file("out")), "new\n");
}

TEST(AnswerWriter, CloseWritesWhatIsHeldAndCountsWhatIsMissing) {
  const test::TempFolder folder;
  AnswerWriter writer(folder.file("out"));
  for (const int64_t row : {0, 6, 3}) writer.write(row, std::to_string(row));
  EXPECT_EQ(writer.close(), 4);  // rows 1, 2, 4 and 5
  EXPECT_EQ(writer.close(), 4);
  EXPECT_EQ(read_file(folder.file("out")), "0\n3\n6\n");
}

TEST(AnswerWriter, DestructionWritesWhatIsHeld) {
  const test::TempFolder folder;
  { AnswerWriter(folder.file("out")).write(2, "c"); }
  EXPECT_EQ(read_file(folder.file("out")), "c\n");
}

TEST(AnswerWriter, TakesLinesFromManyThreads) {
  const test::TempFolder folder;
  AnswerWriter writer(folder.file("out"));
  constexpr int kThreads = 4;
  constexpr int kRows = 2000;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&writer, t] {
      for (int row = t; row < kRows; row += kThreads) writer.write(row, std::to_string(row));
    });
  }
  threads.clear();
  EXPECT_EQ(writer.close(), 0);
  std::string expected;
  for (int row = 0; row < kRows; ++row) expected += std::to_string(row) + "\n";
  EXPECT_EQ(read_file(folder.file("out")), expected);
}

TEST(AnswerWriter, AKilledProcessLeavesWholeLines) {
  const test::TempFolder folder;
  const std::string path = folder.file("out");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AnswerWriter writer(path);
    for (int row = 0; row < 100; ++row) writer.write(row, "line " + std::to_string(row));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  const std::string text = read_file(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 100);
  EXPECT_TRUE(text.ends_with("line 99\n"));
}

TEST(AnswerWriter, AFailureIsThrownAgainByEveryLaterCall) {
  AnswerWriter writer("/dev/full");
  const std::string expected = "cannot write to /dev/full: No space left on device";
  EXPECT_EQ(message_of(ErrorCode::kIo, [&] { writer.write(0, "a"); }), expected);
  EXPECT_EQ(message_of(ErrorCode::kIo, [&] { writer.write(5, "b"); }), expected);
  EXPECT_EQ(message_of(ErrorCode::kIo, [&] { writer.close(); }), expected);
}

TEST(AnswerWriterDeathTest, ARowGivenTwiceIsABug) {
  const test::TempFolder folder;
  AnswerWriter writer(folder.file("out"));
  writer.write(0, "a");
  writer.write(2, "c");
  EXPECT_DEATH(writer.write(0, "a"), "row 0 is given twice");
  EXPECT_DEATH(writer.write(2, "a"), "row 2 is given twice");
}

}  // namespace
}  // namespace zp
