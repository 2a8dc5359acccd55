// How are files, standard input and strings read in pieces?
#include "zp/task/text_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "zp/base/error.h"

namespace zp {
namespace {

std::string errno_text(int code) { return std::generic_category().message(code); }

class DescriptorSource final : public TextSource {
 public:
  DescriptorSource(int descriptor, bool owned, std::string name)
      : descriptor_(descriptor), owned_(owned), name_(std::move(name)) {}
  DescriptorSource(const DescriptorSource&) = delete;
  DescriptorSource& operator=(const DescriptorSource&) = delete;
  ~DescriptorSource() override {
    if (owned_) ::close(descriptor_);
  }

  std::size_t read(std::span<char> into) override {
    while (true) {
      const ssize_t count = ::read(descriptor_, into.data(), into.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) fail(ErrorCode::kIo, "cannot read {}: {}", name_, errno_text(errno));
    }
  }

 private:
  const int descriptor_;
  const bool owned_;
  const std::string name_;
};

class StringSource final : public TextSource {
 public:
  explicit StringSource(std::string bytes) : bytes_(std::move(bytes)) {}

  std::size_t read(std::span<char> into) override {
    const std::size_t count = bytes_.copy(into.data(), into.size(), at_);
    at_ += count;
    return count;
  }

 private:
  const std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<TextSource> open_file_source(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int code = errno;
    fail(code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot open {}: {}", path, errno_text(code));
  }
  auto source = std::make_unique<DescriptorSource>(descriptor, true, path);
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    fail(ErrorCode::kIo, "cannot read {}: it is a folder, not a file", path);
  }
  return source;
}

std::unique_ptr<TextSource> open_stdin_source() {
  return std::make_unique<DescriptorSource>(STDIN_FILENO, false, "standard input");
}

std::unique_ptr<TextSource> make_string_source(std::string bytes) {
  return std::make_unique<StringSource>(std::move(bytes));
}

TextBuffer::TextBuffer(std::unique_ptr<TextSource> source) : source_(std::move(source)), bytes_(std::size_t{1} << 16) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  fill(kByteOrderMark.size());
  if (std::string_view(bytes_.data(), end_).starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
}

void TextBuffer::fill(std::size_t wanted) {
  std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < wanted && !source_ended_) {
    const std::size_t count = source_->read({bytes_.data() + end_, bytes_.size() - end_});
    source_ended_ = count == 0;
    end_ += count;
  }
}

bool TextBuffer::read_line(std::size_t max_bytes, std::string& line, bool& too_long) {
  line.clear();
  too_long = false;
  if (peek() == kEnd) return false;
  bool ended = false;
  while (!ended && peek() != kEnd) {
    const char* const window = bytes_.data() + begin_;
    const auto* const newline = static_cast<const char*>(std::memchr(window, '\n', end_ - begin_));
    const std::size_t count = newline ? static_cast<std::size_t>(newline - window) : end_ - begin_;
    // One byte over the limit may be the "\r" of the line's end.
    too_long = too_long || line.size() + count > max_bytes + 1;
    if (!too_long) line.append(window, count);
    ended = newline != nullptr;
    begin_ += count + (ended ? 1 : 0);
    taken_ += static_cast<int64_t>(count + (ended ? 1 : 0));
  }
  if (ended) {
    ++line_;
    if (line.ends_with('\r')) line.pop_back();
  }
  too_long = too_long || line.size() > max_bytes;
  if (too_long) line.clear();
  return true;
}

}  // namespace zp
