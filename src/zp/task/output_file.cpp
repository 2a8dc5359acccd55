// How is a write completed or undone?
#include "zp/task/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>
#include <utility>

#include "zp/base/check.h"
#include "zp/base/error.h"

namespace zp {
namespace {

std::string errno_text(int code) { return std::generic_category().message(code); }

/// Keeps this thread from being killed by a closed pipe while it lives, whatever the process does about SIGPIPE: a
/// library may not change the process's own setting.
class SigpipeBlock final {
 public:
  SigpipeBlock() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;
  ~SigpipeBlock() {
    const int saved_errno = errno;
    const timespec no_wait{};
    // The signal that our own write raised is taken back before the mask is.
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &no_wait) == -1 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved_errno;
  }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

/// Writes all of `text` and returns 0, or an errno; `written` counts the bytes that went out.
int write_all(int descriptor, std::string_view text, std::size_t& written) {
  const SigpipeBlock block;
  while (written < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + written, text.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (count < 0 && errno == EAGAIN) {
      // Standard output may be a pipe that somebody else made non-blocking.
      pollfd writable{.fd = descriptor, .events = POLLOUT, .revents = 0};
      if (::poll(&writable, 1, -1) < 0 && errno != EINTR) return errno;
    } else if (count < 0 && errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_ == "-") {
    descriptor_ = STDOUT_FILENO;
    return;
  }
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(ErrorCode::kIo, "cannot open {} for writing: {}", path_, errno_text(errno));
  owned_ = true;
  struct stat status {};
  regular_ = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
}

OutputFile::~OutputFile() {
  if (owned_) ::close(descriptor_);
}

void OutputFile::write_lines(std::string_view text) {
  ZP_CHECK(text.empty() || text.back() == '\n', "a text of {} bytes ends within a line", text.size());
  std::size_t written = 0;
  const int code = write_all(descriptor_, text, written);
  if (code != 0) {
    keep_whole_lines(text.substr(0, written));
    fail(ErrorCode::kIo, "cannot write to {}: {}", path_ == "-" ? "standard output" : path_, errno_text(code));
  }
  whole_lines_bytes_ += static_cast<int64_t>(written);
}

void OutputFile::keep_whole_lines(std::string_view written) noexcept {
  whole_lines_bytes_ += static_cast<int64_t>(written.rfind('\n') + 1);  // npos + 1 is 0
  // If this fails too, the reader finds half a line at the end; the first error is the one to report.
  if (regular_ && ::ftruncate(descriptor_, whole_lines_bytes_) != 0) errno = 0;
}

void OutputFile::close() {
  if (!owned_) return;
  owned_ = false;
  if (::close(descriptor_) != 0) fail(ErrorCode::kIo, "cannot finish writing {}: {}", path_, errno_text(errno));
}

}  // namespace zp
