// How do answers that finish in any order come to be written in input order?
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "zp/base/error.h"
#include "zp/task/output_file.h"

namespace zp {

/// Writes one line a row, in the order of the row indexes, each as soon as all before it are there. Any thread may
/// write.
///
/// Invariant: lines [0, next_) are in the file, whole; held_ has only later ones. Lines held are as many as rows the
/// producer lets run ahead of the oldest unfinished one, so the producer's limit bounds memory. There is no other
/// buffer: a line that is written is with the kernel, and a killed process leaves whole lines of the first rows.
class AnswerWriter final {
 public:
  /// Opens and empties `path` ("-" is standard output). Throws Error kIo naming the path and the cause.
  explicit AnswerWriter(const std::string& path);
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;
  /// Writes what is held, as close() does, but ignores failures. Call close() to hear of them.
  ~AnswerWriter();

  /// Takes the line (without its line end) of one row. Requires an index not given before. Blocks while the file
  /// does. Throws Error kIo, naming the path and the cause, now and at every later call once a write has failed.
  void write(int64_t row_index, std::string_view line);

  /// Writes the lines still held, in order, though earlier ones are missing (a run that was stopped), and closes.
  /// Returns how many rows before the last one given are missing; 0 after a whole run. May be called twice. Throws as
  /// write() does.
  int64_t close();

  /// Lines waiting for an earlier one.
  [[nodiscard]] std::size_t held_count() const;

 private:
  void write_text(const std::string& text);  // needs mutex_

  mutable std::mutex mutex_;
  OutputFile file_;  // guarded by mutex_, as all below
  std::map<int64_t, std::string> held_;
  int64_t next_ = 0;
  int64_t missing_ = 0;
  bool closed_ = false;
  std::optional<Error> failure_;
};

}  // namespace zp
