// Does the matcher find the leftmost occurrence, and of those the longest?
#include "zp/tokenizer/token_matcher.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace zp::tokenizer {
namespace {

TEST(TokenMatcher, FindsWhatASearchForEachStringFinds) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto word = [&](std::size_t size_max) {
      std::string text(1 + random() % size_max, 'a');
      for (char& letter : text) letter = static_cast<char>('a' + random() % (seed % 3 + 1));
      return text;
    };
    std::set<std::string> strings;
    for (uint32_t i = 0; i < seed % 7; ++i) strings.insert((seed % 2 == 0 ? "\xFF" : "") + word(5));
    std::vector<std::pair<std::string, int32_t>> values;
    for (const std::string& text : strings) values.emplace_back(text, static_cast<int32_t>(values.size()));
    const TokenMatcher matcher(values);
    EXPECT_EQ(matcher.empty(), strings.empty());
    const std::string text = word(40) + "\xFF" + word(40);
    for (std::size_t start = 0; start <= text.size(); ++start) {
      std::optional<std::pair<std::size_t, std::string>> expected;
      for (const std::string& candidate : strings) {
        const std::size_t at = text.find(candidate, start);
        if (at == std::string::npos) continue;
        if (!expected || at < expected->first ||
            (at == expected->first && candidate.size() > expected->second.size())) {
          expected = {at, candidate};
        }
      }
      const auto found = matcher.find(text, start);
      ASSERT_EQ(found.has_value(), expected.has_value()) << "seed " << seed;
      if (!found) continue;
      EXPECT_EQ(found->begin, expected->first) << "seed " << seed;
      EXPECT_EQ(text.substr(found->begin, found->end - found->begin), expected->second) << "seed " << seed;
      EXPECT_EQ(values[static_cast<std::size_t>(found->value)].first, expected->second) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace zp::tokenizer
