// When is a line written, and what happens to those still held?
#include "zp/task/answer_writer.h"

#include "zp/base/check.h"

namespace zp {

AnswerWriter::AnswerWriter(const std::string& path) : file_(path) {}

AnswerWriter::~AnswerWriter() {
  try {
    close();
  } catch (const Error&) {
    // Whoever wants to know has called close().
  }
}

void AnswerWriter::write(int64_t row_index, std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  ZP_CHECK(!closed_, "row {} comes after close()", row_index);
  ZP_CHECK(row_index >= next_ && !held_.contains(row_index), "row {} is given twice", row_index);
  ZP_CHECK(line.find('\n') == std::string_view::npos, "the answer of row {} holds a line end", row_index);
  std::string text(line);
  text += '\n';
  if (row_index > next_) {
    held_.emplace(row_index, std::move(text));
    return;
  }
  ++next_;
  for (auto it = held_.begin(); it != held_.end() && it->first == next_; it = held_.erase(it)) {
    text += it->second;
    ++next_;
  }
  write_text(text);
}

void AnswerWriter::write_text(const std::string& text) {
  try {
    file_.write_lines(text);
  } catch (const Error& error) {
    failure_ = error;
    throw;
  }
}

int64_t AnswerWriter::close() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  if (closed_) return missing_;
  closed_ = true;
  std::string text;
  for (const auto& [row_index, line] : held_) {
    missing_ += row_index - next_;
    next_ = row_index + 1;
    text += line;
  }
  held_.clear();
  write_text(text);
  try {
    file_.close();
  } catch (const Error& error) {
    failure_ = error;
    throw;
  }
  return missing_;
}

std::size_t AnswerWriter::held_count() const {
  const std::lock_guard lock(mutex_);
  return held_.size();
}

}  // namespace zp
