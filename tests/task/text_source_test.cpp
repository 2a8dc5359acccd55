// Does the window over a source show the same bytes however the source hands them out?
#include "zp/task/text_source.h"

#include <gtest/gtest.h>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

/// Hands out one byte a read, as a slow pipe may.
class TrickleSource final : public TextSource {
 public:
  explicit TrickleSource(std::string bytes) : bytes_(std::move(bytes)) {}
  std::size_t read(std::span<char> into) override {
    const std::size_t count = bytes_.copy(into.data(), 1, at_);
    at_ += count;
    return count;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

TEST(TextBuffer, ReadsTheSameRowsFromATrickle) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a,b\r\n\"x\r\n\"\"\",y\r\n1,2";
  const auto whole = test::read_rows(RowFormat::kCsv, text);
  const auto trickled = test::all_rows(*make_row_reader(RowFormat::kCsv, std::make_unique<TrickleSource>(text)));
  EXPECT_EQ(test::show_all(trickled), test::show_all(whole));
  EXPECT_EQ(test::show_all(whole), (std::vector<std::string>{"a=x\r\n\"|b=y", "a=1|b=2"}));
}

TEST(TextBuffer, ReadsLinesAcrossTheWindowsEdge) {
  constexpr std::size_t kWindow = std::size_t{1} << 16;
  for (const std::size_t length : {kWindow - 2, kWindow - 1, kWindow, kWindow + 1, 3 * kWindow}) {
    TextBuffer buffer(make_string_source(std::string(length, 'x') + "\r\ny"));
    std::string line;
    bool too_long = false;
    ASSERT_TRUE(buffer.read_line(4 * kWindow, line, too_long));
    EXPECT_EQ(line, std::string(length, 'x'));
    EXPECT_EQ(buffer.line(), 2);
    ASSERT_TRUE(buffer.read_line(4 * kWindow, line, too_long));
    EXPECT_EQ(line, "y");
    EXPECT_FALSE(buffer.read_line(4 * kWindow, line, too_long));
  }
}

TEST(TextBuffer, PeeksTwoBytesAcrossTheWindowsEdge) {
  const std::string text = "a\n" + std::string((std::size_t{1} << 16) - 3, 'x') + "\r\n1\n";
  EXPECT_EQ(test::show_all(test::read_rows(RowFormat::kCsv, text)).size(), 2u);
  EXPECT_EQ(test::show_all(test::read_rows(RowFormat::kCsv, text))[1], "a=1");
}

}  // namespace
}  // namespace zp
