// Does the cache only ever answer with what was put in for exactly that word?
#include "zp/tokenizer/word_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace zp::tokenizer {
namespace {

using Ids = std::vector<int32_t>;

// Ids that only this word can have.
Ids ids_of(const std::string& word) {
  Ids ids(word.size() % 13 + 2);
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(std::hash<std::string>()(word) % 1000000));
  return ids;
}

TEST(WordCache, AnswersWithTheIdsOfTheWord) {
  WordCache cache(8);
  Ids ids = {9};
  EXPECT_FALSE(cache.find("word", ids));
  cache.put("word", {1, 2, 3}, 2);
  EXPECT_TRUE(cache.find("word", ids));
  EXPECT_EQ(ids, (Ids{9, 2, 3}));
  EXPECT_FALSE(cache.find("wort", ids));
  EXPECT_FALSE(cache.find("words", ids));
  EXPECT_FALSE(cache.find("", ids));
  EXPECT_EQ(ids, (Ids{9, 2, 3}));
}

TEST(WordCache, LeavesLongWordsOut) {
  WordCache cache(1);
  Ids ids;
  cache.put(std::string(48, 'a'), Ids(16, 1), 16);
  EXPECT_TRUE(cache.find(std::string(48, 'a'), ids));
  EXPECT_EQ(ids, Ids(16, 1));
  cache.put(std::string(49, 'a'), Ids(2, 1), 2);
  EXPECT_FALSE(cache.find(std::string(49, 'a'), ids));
  cache.put("b", Ids(17, 1), 17);
  EXPECT_FALSE(cache.find("b", ids));
}

TEST(WordCache, NeverMixesWordsThatThreadsPutAtOnce) {
  WordCache cache(2);  // so small that every word fights for a slot
  std::vector<std::string> words;
  for (int i = 0; i < 16; ++i)
    words.push_back(std::string(static_cast<std::size_t>(i % 4 * 10 + 1), static_cast<char>('a' + i)));
  std::atomic<int> wrong{0};
  std::atomic<int> hits{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 20000; ++i) {
        const std::string& word = words[(i * 5 + t * 3 + i / 16) % words.size()];
        Ids found;
        if (cache.find(word, found)) {
          ++hits;
          if (found != ids_of(word)) ++wrong;
        } else {
          const Ids ids = ids_of(word);
          cache.put(word, ids, ids.size());
          Ids again;
          if (cache.find(word, again) && again != ids) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace zp::tokenizer
