// Spreads models over groups.
#include "zp/parallel/group_layout.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "zp/base/check.h"

namespace zp {
namespace {

constexpr std::array<std::pair<std::string_view, Strategy>, 5> kNames = {{{"dp+ep", Strategy::kDpEp},
                                                                          {"dp+tp", Strategy::kDpTp},
                                                                          {"tp+ep", Strategy::kTpEp},
                                                                          {"tp+tp", Strategy::kTpTp},
                                                                          {"pp+pp", Strategy::kPpPp}}};

bool has_dense_layers(const ModelShape& shape) { return shape.moe_layers() < shape.layers; }

}  // namespace

std::string_view to_string(Strategy strategy) noexcept {
  for (const auto& [name, value] : kNames)
    if (value == strategy) return name;
  return "unknown";
}

std::optional<Strategy> parse_strategy(std::string_view text) {
  for (const auto& [name, value] : kNames)
    if (name == text) return value;
  return std::nullopt;
}

std::vector<std::string> problems(const ModelShape& shape, const GroupLayout& layout) {
  std::vector<std::string> found;
  const int32_t ranks = layout.ranks;
  const auto require_divides = [&](const char* what, int32_t count) {
    if (count % ranks != 0)
      found.push_back(fmt::format("{} on {} ranks: {} does not divide the {} {}", to_string(layout.strategy), ranks,
                                  ranks, count, what));
  };
  if (layout.attention_is_tp()) {
    require_divides("query heads", shape.query_heads);
    if (shape.kv_heads % ranks != 0 && ranks % shape.kv_heads != 0)
      found.push_back(fmt::format("{} on {} ranks: neither does {} divide the {} kv heads, nor they {}",
                                  to_string(layout.strategy), ranks, ranks, shape.kv_heads, ranks));
    if (has_dense_layers(shape)) require_divides("inner features of a dense layer", shape.dense_intermediate);
  }
  if (layout.experts_are_tp() && shape.moe_layers() > 0)
    require_divides("inner features of an expert", shape.expert_intermediate);
  if (layout.is_pipeline() && ranks > shape.layers)
    found.push_back(
        fmt::format("{} on {} ranks: there are only {} layers", to_string(layout.strategy), ranks, shape.layers));
  return found;
}

ModelShard shard_of(const ModelShape& shape, const GroupLayout& layout, int32_t rank) {
  const int32_t ranks = layout.ranks;
  ModelShard shard = whole_model(shape);
  if (layout.is_pipeline()) shard.layers = part_of(shape.layers, rank, ranks);
  if (layout.attention_is_tp()) {
    shard.query_heads = part_of(shape.query_heads, rank, ranks);
    const bool shared = ranks > shape.kv_heads;
    shard.kv_heads = shared ? IndexRange{rank * shape.kv_heads / ranks, 1} : part_of(shape.kv_heads, rank, ranks);
    shard.dense_intermediate = part_of(shape.dense_intermediate, rank, ranks);
  }
  if (layout.experts_are_tp()) shard.expert_intermediate = part_of(shape.expert_intermediate, rank, ranks);
  if (layout.experts_are_ep()) shard.experts = part_of(shape.experts, rank, ranks);
  return shard;
}

std::vector<int32_t> expert_owners(const ModelShape& shape, const GroupLayout& layout) {
  ZP_CHECK(layout.experts_are_ep(), "{} has no owners of experts", to_string(layout.strategy));
  std::vector<int32_t> owners(static_cast<size_t>(shape.experts));
  for (int32_t rank = 0; rank < layout.ranks; ++rank) {
    const IndexRange held = part_of(shape.experts, rank, layout.ranks);
    for (int32_t e = held.begin; e < held.end(); ++e) owners[static_cast<size_t>(e)] = rank;
  }
  return owners;
}

}  // namespace zp
