// Is every failed write an error that names the file, and is what was written before it whole?
#include "zp/task/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using test::message_of;
using ::testing::HasSubstr;

TEST(OutputFile, NamesAPathThatCannotBeOpened) {
  const test::TempFolder folder;
  const auto open = [](const std::string& path) {
    return message_of(ErrorCode::kIo, [&path] { const OutputFile file(path); });
  };
  EXPECT_THAT(open(folder.file("none/out")), AllOf(HasSubstr("none/out"), HasSubstr("No such file or directory")));
  EXPECT_THAT(open(folder.file(".")), HasSubstr("Is a directory"));
}

TEST(OutputFile, AFileThatMayNotGrowKeepsOnlyWholeLines) {
  // A file size limit stands for a full disk: both stop a write in the middle of a line.
  const test::TempFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  OutputFile file(folder.file("out"));
  file.write_lines("first\n");
  rlimit small = before;
  small.rlim_cur = 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message =
      message_of(ErrorCode::kIo, [&file] { file.write_lines("second\na line that does not fit\n"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("/out"), HasSubstr("File too large")));
  EXPECT_EQ(test::read_file(folder.file("out")), "first\nsecond\n");
}

TEST(OutputFile, AClosedPipeIsAnErrorAndNoSignal) {
  const test::TempFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  OutputFile file(path);
  file.write_lines("a\n");
  ::close(reader);
  ASSERT_EQ(::signal(SIGPIPE, SIG_DFL), SIG_DFL) << "somebody ignores SIGPIPE, so this test shows nothing";
  EXPECT_THAT(message_of(ErrorCode::kIo, [&file] { file.write_lines("b\n"); }), HasSubstr("pipe: Broken pipe"));
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGPIPE), 0);
}

TEST(OutputFile, WaitsForAPipeThatIsFullAndNonBlocking) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const int saved = ::dup(STDOUT_FILENO);
  ASSERT_EQ(::dup2(ends[1], STDOUT_FILENO), STDOUT_FILENO);
  ::close(ends[1]);
  const std::string text = std::string(300000, 'x') + "\n";
  std::string got;
  {
    std::jthread reader([&got, &text, descriptor = ends[0]] {
      char bytes[4096];
      ssize_t count = 0;
      while (got.size() < text.size() && (count = ::read(descriptor, bytes, sizeof bytes)) > 0) {
        got.append(bytes, static_cast<std::size_t>(count));
      }
    });
    EXPECT_NO_THROW(OutputFile("-").write_lines(text));
    ::dup2(saved, STDOUT_FILENO);
  }
  ::close(saved);
  ::close(ends[0]);
  EXPECT_EQ(got, text);
}

}  // namespace
}  // namespace zp
