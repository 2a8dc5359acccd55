// The synchronous strategies: which part of a model each rank of a group holds, and which models they refuse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zp/shape/model_shape.h"
#include "zp/shape/model_shard.h"

namespace zp {

/// How attention and experts are spread over a group, as in Table 1 of the paper (docs/notes/baselines.md). DP: each
/// rank has its own sequences and all weights. TP: every rank has all sequences and a slice of every matrix. EP: each
/// rank has some of the experts, whole. PP: each rank has some of the layers.
enum class Strategy : uint8_t { kDpEp, kDpTp, kTpEp, kTpTp, kPpPp };

/// "dp+ep".
[[nodiscard]] std::string_view to_string(Strategy strategy) noexcept;
[[nodiscard]] std::optional<Strategy> parse_strategy(std::string_view text);

struct GroupLayout {
  Strategy strategy = Strategy::kTpTp;
  int32_t ranks = 1;

  /// Each rank attends to sequences of its own.
  [[nodiscard]] bool attention_is_dp() const noexcept {
    return strategy == Strategy::kDpEp || strategy == Strategy::kDpTp;
  }
  /// Every rank attends to all sequences with some of the heads.
  [[nodiscard]] bool attention_is_tp() const noexcept {
    return strategy == Strategy::kTpEp || strategy == Strategy::kTpTp;
  }
  [[nodiscard]] bool experts_are_ep() const noexcept {
    return strategy == Strategy::kDpEp || strategy == Strategy::kTpEp;
  }
  [[nodiscard]] bool experts_are_tp() const noexcept {
    return strategy == Strategy::kDpTp || strategy == Strategy::kTpTp;
  }
  [[nodiscard]] bool is_pipeline() const noexcept { return strategy == Strategy::kPpPp; }
};

/// Why this model cannot be spread like that ("tp+tp on 3 ranks: 3 does not divide the 4 query heads"); empty if it
/// can. Experts need not divide: the first ranks hold one more.
[[nodiscard]] std::vector<std::string> problems(const ModelShape& shape, const GroupLayout& layout);

/// What `rank` holds; `layout` has no problems with the shape. With more ranks than kv heads, neighbouring ranks hold
/// the same one.
[[nodiscard]] ModelShard shard_of(const ModelShape& shape, const GroupLayout& layout, int32_t rank);

/// The rank that holds each expert, for strategies with experts_are_ep().
[[nodiscard]] std::vector<int32_t> expert_owners(const ModelShape& shape, const GroupLayout& layout);

}  // namespace zp
