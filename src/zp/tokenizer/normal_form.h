// How is a text brought to a normal form of Unicode 9, the version that Hugging Face tokenizers know?
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zp::tokenizer {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// Normalizes text, in time that is linear but for sorting runs of marks. Immutable, thread-safe.
class NormalFormer final {
 public:
  explicit NormalFormer(NormalForm form);

  /// The offset of the first code point from `offset` on that is not plain; text.size() if there is none, which means
  /// that normalizing changes nothing. Requires valid UTF-8.
  [[nodiscard]] std::size_t find_unplain(std::string_view text, std::size_t offset) const;

  /// The text in the normal form. Requires valid UTF-8.
  [[nodiscard]] std::string apply(std::string_view text) const;

 private:
  // A code point is plain if the form keeps it as it is and it never reorders with, nor joins, what precedes it.
  [[nodiscard]] bool is_plain(char32_t value) const {
    return value < kPlainEnd && ((plain_[value / 64] >> (value % 64)) & 1) != 0;
  }
  void clear_plain(char32_t value) {
    if (value < kPlainEnd) plain_[value / 64] &= ~(uint64_t{1} << (value % 64));
  }
  void append_stretch(std::string& out, std::string_view text) const;
  void append_normalized(std::string& out, std::string_view text) const;

  static constexpr char32_t kPlainEnd = 0x20000;  // beyond it nothing is called plain

  int options_;  // of utf8proc, for the last step
  int decompose_options_;
  std::vector<uint64_t> plain_;  // a bit a code point
};

}  // namespace zp::tokenizer
