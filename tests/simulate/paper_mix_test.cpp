// The mix against Table 2 of the paper.
#include "zp/simulate/paper_mix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace zp {
namespace {

struct Part {
  int64_t requests = 0;
  int64_t tokens = 0;
  int64_t low = INT64_MAX;
  int64_t high = 0;
  std::set<uint64_t> prefixes;
};

std::map<std::string, Part> parts_of(const Workload& mix) {
  std::map<std::string, Part> parts;
  for (const WorkRequest& request : mix.requests) {
    Part& part = parts[mix.parts[static_cast<size_t>(request.part)]];
    ++part.requests;
    part.tokens += request.tokens();
    part.low = std::min(part.low, request.tokens());
    part.high = std::max(part.high, request.tokens());
    part.prefixes.insert(request.pieces.front().text);
  }
  return parts;
}

void expect_part(const Part& part, int64_t requests, double million_tokens, size_t prefixes) {
  EXPECT_EQ(part.requests, requests);
  EXPECT_NEAR(static_cast<double>(part.tokens) / 1e6, million_tokens, 0.03 * million_tokens);
  EXPECT_EQ(part.prefixes.size(), prefixes);
}

TEST(PaperMix, HasTheCountsAndLengthsOfTable2) {
  const Workload mix = paper_mix();
  auto parts = parts_of(mix);
  ASSERT_EQ(parts.size(), 6U);
  expect_part(parts["MoralStories"], 24'000, 3.3, 6);
  expect_part(parts["MMLU"], 24'000, 5.8, 57);
  expect_part(parts["BoolQ"], 12'000, 2.7, 1);
  expect_part(parts["IMDB"], 12'000, 5.5, 1);
  expect_part(parts["QuALITY"], 1200, 10.5, 80);
  expect_part(parts["ArXiv"], 600, 10.1, 1);
  EXPECT_EQ(mix.requests.size(), 73'800U);
  EXPECT_NEAR(static_cast<double>(mix.tokens()) / 1e6, 37.9, 0.4);
  EXPECT_GE(parts["MoralStories"].low, 100);
  EXPECT_LE(parts["MoralStories"].high, 200);
  EXPECT_GE(parts["MMLU"].low, 50);
  EXPECT_LE(parts["MMLU"].high, 500);
  EXPECT_GE(parts["QuALITY"].low, 4000);
  EXPECT_LE(parts["QuALITY"].high, 12'000);
  EXPECT_GE(parts["ArXiv"].low, 6000);
  EXPECT_LE(parts["ArXiv"].high, 128'000);
}

TEST(PaperMix, SharesWhatIsFixed) {
  const Workload mix = paper_mix();
  std::map<uint64_t, int64_t> questions;  // by document
  for (const WorkRequest& request : mix.requests)
    if (mix.parts[static_cast<size_t>(request.part)] == "QuALITY") ++questions[request.pieces.front().text];
  for (const auto& [document, count] : questions) EXPECT_EQ(count, 15) << document;
  // No text belongs to two sources, and each request's own text is its own.
  std::map<uint64_t, int32_t> owner;
  std::set<uint64_t> own;
  for (const WorkRequest& request : mix.requests) {
    for (const TextPiece& piece : request.pieces)
      EXPECT_EQ(owner.emplace(piece.text, request.part).first->second, request.part);
    EXPECT_TRUE(own.insert(request.pieces.back().text).second);
  }
}

TEST(PaperMix, IsAlwaysTheSame) {
  const Workload a = paper_mix();
  const Workload b = paper_mix();
  ASSERT_EQ(a.requests.size(), b.requests.size());
  for (size_t i = 0; i < a.requests.size(); i += 997) EXPECT_EQ(a.requests[i].tokens(), b.requests[i].tokens());
  EXPECT_EQ(a.tokens(), b.tokens());
}

}  // namespace
}  // namespace zp
