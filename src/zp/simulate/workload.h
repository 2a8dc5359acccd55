// Requests to be scheduled, without their words: which texts they are made of, and when they arrive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zp {

/// `count` tokens of a text from `offset` on. Equal pieces are equal tokens; different texts share none.
struct TextPiece {
  uint64_t text = 0;
  int32_t offset = 0;
  int32_t count = 0;
};

struct WorkRequest {
  std::vector<TextPiece> pieces;
  int64_t arrival_ns = 0;
  int32_t part = 0;  ///< of the workload's parts

  [[nodiscard]] int64_t tokens() const noexcept;
  [[nodiscard]] std::vector<int32_t> token_ids() const;
};

struct Workload {
  std::string name;
  std::vector<std::string> parts;     ///< what it is made of ("MMLU"); at least one
  std::vector<WorkRequest> requests;  ///< in order of arrival
  bool timed = false;                 ///< they have times of their own; else all arrive at time 0

  [[nodiscard]] int64_t tokens() const noexcept;
  [[nodiscard]] int64_t tokens_max() const noexcept;  ///< of one request
};

/// Another order, the same for the same seed. Requires that all arrive at once.
void shuffle(Workload& workload, uint64_t seed);
/// Gives every request texts of its own: lengths stay, no two share a token.
void remove_sharing(Workload& workload);
/// About `share` of each part's requests, in (0, 1], in their order. They still share: of many requests with one prefix
/// evenly spaced ones are kept; of few, all or none.
[[nodiscard]] Workload take_share(const Workload& workload, double share);
/// All arrive at time 0, in the order in which they are.
void arrive_at_once(Workload& workload);

/// Tokens that one unlimited cache for all would save: whole blocks that an earlier request has, but never the last
/// token. No policy and no number of ranks can save more.
[[nodiscard]] int64_t reusable_tokens(const Workload& workload);

}  // namespace zp
