// Cuts steps into rounds.
#include "zp/parallel/rounds.h"

#include <algorithm>
#include <numeric>

#include "zp/base/check.h"
#include "zp/base/math.h"

namespace zp {
namespace {

int64_t before(std::span<const int64_t> counts, int32_t rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

std::vector<Round> rounds_of_dp(const RoundInput& input) {
  const int64_t part = input.chunk_tokens / input.layout.ranks;  // of a rank in a round
  const int64_t longest = *std::ranges::max_element(input.tokens);
  std::vector<Round> rounds;
  for (int64_t begin = 0; begin < longest; begin += part) {
    Round& round = rounds.emplace_back();
    for (const int64_t tokens : input.tokens) round.counts.push_back(std::clamp<int64_t>(tokens - begin, 0, part));
    round.total = before(round.counts, input.layout.ranks);
    const int64_t own = round.counts[static_cast<size_t>(input.rank)];
    // Rows past the end: there are none, so they may as well begin at the end.
    const int64_t row = std::min(begin, input.tokens[static_cast<size_t>(input.rank)]);
    round.own = {.row = row, .at = before(round.counts, input.rank), .count = own};
    round.attention = round.own;
  }
  return rounds;
}

std::vector<Round> rounds_of_tp(const RoundInput& input) {
  const auto ranks = static_cast<size_t>(input.layout.ranks);
  const int64_t tokens = input.tokens.front();
  ZP_CHECK(std::ranges::all_of(input.tokens, [&](int64_t other) { return other == tokens; }),
           "ranks that share a step have different ones");
  std::vector<Round> rounds;
  for (int64_t begin = 0; begin < tokens; begin += input.chunk_tokens) {
    Round& round = rounds.emplace_back();
    round.total = std::min(input.chunk_tokens, tokens - begin);
    round.attention = {.row = begin, .at = 0, .count = round.total};
    if (input.layout.experts_are_tp()) {
      round.own = round.attention;
      round.counts.assign(ranks, round.total);
      continue;
    }
    for (int32_t r = 0; r < input.layout.ranks; ++r)
      round.counts.push_back(part_of(static_cast<int32_t>(round.total), r, input.layout.ranks).count);
    const int64_t at = before(round.counts, input.rank);
    round.own = {.row = begin + at, .at = at, .count = round.counts[static_cast<size_t>(input.rank)]};
  }
  return rounds;
}

}  // namespace

std::vector<Round> make_rounds(const RoundInput& input) {
  ZP_CHECK(std::ssize(input.tokens) == input.layout.ranks && input.chunk_tokens >= input.layout.ranks,
           "rounds of {} tokens for {} of {} ranks", input.chunk_tokens, input.tokens.size(), input.layout.ranks);
  ZP_CHECK(!input.layout.is_pipeline(), "a pipeline has no rounds");
  return input.layout.attention_is_dp() ? rounds_of_dp(input) : rounds_of_tp(input);
}

std::vector<int32_t> row_owners(const RoundInput& input) {
  ZP_CHECK(input.layout.attention_is_tp(), "with {} each rank has rows of its own", to_string(input.layout.strategy));
  std::vector<int32_t> owners;
  owners.reserve(static_cast<size_t>(input.tokens.front()));
  for (const Round& round : make_rounds(input)) {
    for (int32_t r = 0; r < input.layout.ranks; ++r) {
      const auto count = static_cast<size_t>(
          input.layout.experts_are_tp() ? part_of(static_cast<int32_t>(round.total), r, input.layout.ranks).count
                                        : round.counts[static_cast<size_t>(r)]);
      owners.insert(owners.end(), count, r);
    }
  }
  return owners;
}

}  // namespace zp
