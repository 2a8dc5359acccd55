// Orders, sharing and the bound on reuse, against naive counting.
#include "zp/simulate/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "zp/simulate/random.h"

namespace zp {
namespace {

Workload small_workload() {
  Workload w{.name = "small", .parts = {"a"}, .requests = {}};
  // Three questions on text 1, two on its first half, one on text 2.
  for (uint64_t i = 0; i < 3; ++i) w.requests.push_back({.pieces = {{1, 0, 64}, {100 + i, 0, 10}}});
  for (uint64_t i = 3; i < 5; ++i) w.requests.push_back({.pieces = {{1, 0, 32}, {100 + i, 0, 40}}});
  w.requests.push_back({.pieces = {{2, 0, 33}}});
  return w;
}

TEST(Workload, EqualPiecesAreEqualTokensAndOthersAreNot) {
  const WorkRequest whole{.pieces = {{7, 0, 50}}};
  const WorkRequest parts{.pieces = {{7, 0, 20}, {7, 20, 30}}};
  EXPECT_EQ(whole.token_ids(), parts.token_ids());
  EXPECT_EQ(whole.tokens(), 50);
  EXPECT_NE(whole.token_ids(), (WorkRequest{.pieces = {{8, 0, 50}}}).token_ids());
  for (const int32_t id : whole.token_ids()) EXPECT_GE(id, 0);
}

TEST(Workload, ShufflingKeepsTheRequestsAndDependsOnTheSeedAlone) {
  const auto order = [](uint64_t seed) {
    Workload w = small_workload();
    shuffle(w, seed);
    std::vector<uint64_t> texts;
    for (const WorkRequest& request : w.requests) texts.push_back(request.pieces.back().text);
    return texts;
  };
  EXPECT_EQ(order(5), order(5));
  EXPECT_NE(order(5), order(6));
  std::vector<uint64_t> sorted = order(5);
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, (std::vector<uint64_t>{2, 100, 101, 102, 103, 104}));
}

TEST(Workload, WithoutSharingOnlyLengthsStay) {
  Workload w = small_workload();
  const int64_t tokens = w.tokens();
  remove_sharing(w);
  EXPECT_EQ(w.tokens(), tokens);
  EXPECT_EQ(reusable_tokens(w), 0);
  EXPECT_EQ(w.requests[0].tokens(), 74);
}

// Of 400 questions on one text and of 20 texts with 2 questions each.
TEST(Workload, AShareKeepsTheSharing) {
  Workload w{.name = "shared", .parts = {"many", "few"}, .requests = {}};
  for (uint64_t i = 0; i < 400; ++i) w.requests.push_back({.pieces = {{1, 0, 64}, {1000 + i, 0, 10}}, .part = 0});
  for (uint64_t i = 0; i < 40; ++i)
    w.requests.push_back({.pieces = {{2 + i / 2, 0, 64}, {2000 + i, 0, 10}}, .part = 1});
  const Workload some = take_share(w, 0.1);
  int64_t many = 0;
  std::map<uint64_t, int64_t> few;
  uint64_t last = 0;
  for (const WorkRequest& request : some.requests) {
    EXPECT_GT(request.pieces.back().text, last);  // in their order
    last = request.pieces.back().text;
    if (request.part == 0)
      ++many;
    else
      ++few[request.pieces.front().text];
  }
  EXPECT_NEAR(static_cast<double>(many), 40, 1);
  EXPECT_EQ(few.size(), 2U);
  for (const auto& [text, questions] : few) EXPECT_EQ(questions, 2);
  EXPECT_EQ(take_share(w, 1).requests.size(), w.requests.size());
}

// For each request, the longest run of whole blocks that some earlier request has token by token.
TEST(Workload, ReusableTokensAreThoseOfEarlierRequests) {
  const Workload w = small_workload();
  int64_t saved = 0;
  for (size_t i = 0; i < w.requests.size(); ++i) {
    const std::vector<int32_t> ids = w.requests[i].token_ids();
    int64_t best = 0;
    for (size_t j = 0; j < i; ++j) {
      const std::vector<int32_t> other = w.requests[j].token_ids();
      size_t same = 0;
      while (same < ids.size() && same < other.size() && ids[same] == other[same]) ++same;
      best =
          std::max(best, std::min<int64_t>(static_cast<int64_t>(same), static_cast<int64_t>(ids.size()) - 1) / 16 * 16);
    }
    saved += best;
  }
  EXPECT_EQ(saved, 2 * 64 + 2 * 32);
  EXPECT_EQ(reusable_tokens(w), saved);
}

TEST(Workload, TheLastTokenIsNeverSaved) {
  Workload w{.name = "twins", .parts = {"a"}, .requests = {}};
  for (int i = 0; i < 2; ++i) w.requests.push_back({.pieces = {{1, 0, 48}}});
  EXPECT_EQ(reusable_tokens(w), 32);
}

TEST(Random, StaysInItsBounds) {
  Random random(3);
  std::set<int64_t> seen;
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    seen.insert(random.between(2, 5));
    const int64_t value = random.skewed(100, 150, 5000);
    EXPECT_GE(value, 100);
    EXPECT_LE(value, 5000);
    sum += static_cast<double>(value);
  }
  EXPECT_EQ(seen, (std::set<int64_t>{2, 3, 4, 5}));
  EXPECT_NEAR(sum / 20'000, 150, 2);
}

}  // namespace
}  // namespace zp
