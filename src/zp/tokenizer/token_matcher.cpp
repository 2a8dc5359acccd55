// Where does any of a set of strings occur in a text?
#include "zp/tokenizer/token_matcher.h"

#include <algorithm>
#include <cstring>

#include "zp/base/check.h"

namespace zp::tokenizer {

TokenMatcher::TokenMatcher(std::vector<std::pair<std::string, int32_t>> strings) {
  std::sort(strings.begin(), strings.end());
  nodes_.emplace_back();
  // Breadth first, so that the edges of a node are neighbours: a range of the sorted strings shares each node's path.
  struct Range {
    std::size_t first;
    std::size_t last;  // excluded
    uint32_t node;
    std::size_t depth;
  };
  std::vector<Range> queue = {{0, strings.size(), 0, 0}};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    Range range = queue[head];
    if (range.first < range.last && strings[range.first].first.size() == range.depth) {
      ZP_CHECK(range.depth > 0, "an empty string cannot be matched");
      nodes_[range.node].value = strings[range.first].second;
      ++range.first;
    }
    nodes_[range.node].edges_begin = static_cast<uint32_t>(edges_.size());
    while (range.first < range.last) {
      const char byte = strings[range.first].first[range.depth];
      std::size_t end = range.first;
      while (end < range.last && strings[end].first[range.depth] == byte) ++end;
      const auto target = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edges_.push_back({static_cast<unsigned char>(byte), target});
      queue.push_back({range.first, end, target, range.depth + 1});
      range.first = end;
    }
    nodes_[range.node].edges_end = static_cast<uint32_t>(edges_.size());
  }
  for (uint32_t i = nodes_[0].edges_begin; i < nodes_[0].edges_end; ++i) first_[edges_[i].byte] = edges_[i].target;
  if (nodes_[0].edges_end == nodes_[0].edges_begin + 1) only_first_byte_ = edges_[nodes_[0].edges_begin].byte;
}

uint32_t TokenMatcher::child(uint32_t node, unsigned char byte) const {
  const auto begin = edges_.begin() + nodes_[node].edges_begin;
  const auto end = edges_.begin() + nodes_[node].edges_end;
  const auto edge = std::lower_bound(begin, end, byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
  return edge != end && edge->byte == byte ? edge->target : 0;
}

std::optional<TokenMatcher::Found> TokenMatcher::find(std::string_view text, std::size_t start) const {
  if (empty()) return std::nullopt;
  for (std::size_t begin = start; begin < text.size(); ++begin) {
    if (only_first_byte_ >= 0) {
      const void* next = std::memchr(text.data() + begin, only_first_byte_, text.size() - begin);
      if (next == nullptr) return std::nullopt;
      begin = static_cast<std::size_t>(static_cast<const char*>(next) - text.data());
    }
    uint32_t node = first_[static_cast<unsigned char>(text[begin])];
    std::optional<Found> longest;
    for (std::size_t end = begin + 1; node != 0; ++end) {
      if (nodes_[node].value >= 0) longest = Found{begin, end, nodes_[node].value};
      if (end == text.size()) break;
      node = child(node, static_cast<unsigned char>(text[end]));
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace zp::tokenizer
