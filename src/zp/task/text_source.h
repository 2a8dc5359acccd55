// Where do bytes of text come from, and how are they looked at with bounded memory?
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zp {

/// A stream of bytes. One thread at a time.
class TextSource {
 public:
  virtual ~TextSource() = default;
  /// Reads up to into.size() bytes and returns how many; 0 is the end. May block. Throws Error kIo, naming the source.
  [[nodiscard]] virtual std::size_t read(std::span<char> into) = 0;
};

/// Opens a file. Throws Error: kNotFound if there is none, kIo otherwise (a folder, no permission).
[[nodiscard]] std::unique_ptr<TextSource> open_file_source(const std::string& path);

/// The process's standard input, which stays open.
[[nodiscard]] std::unique_ptr<TextSource> open_stdin_source();

/// The given bytes.
[[nodiscard]] std::unique_ptr<TextSource> make_string_source(std::string bytes);

/// Looks at a source through a window of 64 KiB. Skips a UTF-8 byte order mark at the start. One thread at a time.
class TextBuffer final {
 public:
  static constexpr int kEnd = -1;

  explicit TextBuffer(std::unique_ptr<TextSource> source);

  /// The byte `offset` (0 or 1) ahead as 0..255, or kEnd.
  [[nodiscard]] int peek(std::size_t offset = 0) {
    if (begin_ + offset >= end_) fill(offset + 1);
    return begin_ + offset < end_ ? static_cast<unsigned char>(bytes_[begin_ + offset]) : kEnd;
  }

  /// Takes one byte. Requires that peek() gave one.
  void take() {
    if (bytes_[begin_] == '\n') ++line_;
    ++begin_;
    ++taken_;
  }

  /// Reads a line without its "\n" or "\r\n" into `line`; false at the end. A line of more than `max_bytes` bytes
  /// is taken as a whole but not kept: `line` is then empty and `too_long` true.
  [[nodiscard]] bool read_line(std::size_t max_bytes, std::string& line, bool& too_long);

  /// The 1-based line of the next byte.
  [[nodiscard]] int64_t line() const noexcept { return line_; }
  /// The count of bytes taken so far.
  [[nodiscard]] int64_t taken_bytes() const noexcept { return taken_; }

 private:
  void fill(std::size_t wanted);

  std::unique_ptr<TextSource> source_;
  std::vector<char> bytes_;  // bytes_[begin_, end_) is the window
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool source_ended_ = false;
  int64_t line_ = 1;
  int64_t taken_ = 0;
};

}  // namespace zp
