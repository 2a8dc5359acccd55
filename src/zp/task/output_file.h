// How do bytes reach a file or pipe so that a failure is an error with a name, never a signal or a silence?
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zp {

/// A file open for writing whole lines, without a buffer of its own: what write_lines() took is in the kernel's hands,
/// so a killed process loses nothing of it. One thread at a time.
class OutputFile final {
 public:
  /// Opens and empties `path`; "-" is standard output. Throws Error kIo naming the path and the cause.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Writes text that ends with a line end. May block. Throws Error kIo naming the path and the cause (no SIGPIPE is
  /// raised); a regular file is then cut after its last whole line.
  void write_lines(std::string_view text);

  /// Closes; may be called twice. Throws Error kIo if the system reports a late failure. Standard output stays open.
  void close();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  void keep_whole_lines(std::string_view written) noexcept;

  const std::string path_;
  int descriptor_ = -1;
  bool owned_ = false;
  bool regular_ = false;  // one we opened, so its length is ours to cut
  int64_t whole_lines_bytes_ = 0;
};

}  // namespace zp
