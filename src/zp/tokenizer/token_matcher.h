// Where does any of a set of strings occur in a text? The leftmost, and of those at one place the longest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zp::tokenizer {

/// A trie over strings. Immutable, thread-safe.
class TokenMatcher final {
 public:
  struct Found {
    std::size_t begin;
    std::size_t end;
    int32_t value;
  };

  /// Each string with the value to report. Requires distinct, non-empty strings.
  explicit TokenMatcher(std::vector<std::pair<std::string, int32_t>> strings);

  /// The first occurrence that starts at or after `start`. Time: text size times the longest string at worst.
  [[nodiscard]] std::optional<Found> find(std::string_view text, std::size_t start) const;

  [[nodiscard]] bool empty() const { return nodes_.size() == 1; }

 private:
  struct Node {
    uint32_t edges_begin = 0;  // edges of a node are neighbours, sorted by byte
    uint32_t edges_end = 0;
    int32_t value = -1;  // -1: no string ends here
  };
  struct Edge {
    unsigned char byte;
    uint32_t target;
  };

  [[nodiscard]] uint32_t child(uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;  // nodes_[0] is the root
  std::vector<Edge> edges_;
  std::array<uint32_t, 256> first_{};  // children of the root; 0: none
  int only_first_byte_ = -1;           // the byte that all strings start with, or -1
};

}  // namespace zp::tokenizer
