// Table 1, memory and balance of the synchronous strategies.
#include "zp/plan/strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "zp/base/check.h"
#include "zp/base/human.h"
#include "zp/shape/flops.h"

namespace zp {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"dp+dp", "dp+tp", "dp+ep", "tp+tp",
                                                    "tp+ep", "pp+pp", "sp+tp", "sp+ep"};

std::string_view attention_part(std::string_view name) { return name.substr(0, 2); }
std::string_view expert_part(std::string_view name) { return name.substr(3); }

std::string why_impossible(const ModelShape& shape, std::string_view name, int32_t ranks) {
  const auto divides = [&](const char* what, int32_t count) {
    return count % ranks == 0 ? std::string() : fmt::format("{} ranks do not divide {} {}", ranks, count, what);
  };
  if (attention_part(name) == "pp" && ranks > shape.layers)
    return fmt::format("{} ranks are more than {} layers", ranks, shape.layers);
  std::string reason;
  if (attention_part(name) == "tp") {
    reason = divides("query heads", shape.query_heads);
    if (reason.empty() && shape.kv_heads % ranks != 0 && ranks % shape.kv_heads != 0)
      reason = fmt::format("{} ranks and {} kv heads: neither divides the other", ranks, shape.kv_heads);
  }
  if (reason.empty() && expert_part(name) == "tp")
    reason = divides("inner features of an expert", shape.expert_intermediate);
  if (reason.empty() && expert_part(name) == "ep" && ranks > shape.experts)
    reason = fmt::format("{} ranks are more than {} experts", ranks, shape.experts);
  return reason;
}

// Of the rank that holds most. Dense feed-forwards go with attention; shared experts, which every token needs, too.
uint64_t weight_bytes(const ModelShape& shape, std::string_view name, const StrategySpec& spec) {
  const ParameterCounts counts = parameter_counts(shape);
  const int64_t ranks = spec.traffic.ranks;
  const auto part = [&](int64_t count) { return (count + ranks - 1) / ranks; };
  int64_t replicated = counts.embedding + counts.head + counts.router + counts.norms;
  int64_t attention = counts.attention + counts.dense;
  int64_t experts = counts.experts;
  if (attention_part(name) == "tp") attention = part(attention);
  if (expert_part(name) == "tp" || expert_part(name) == "ep") experts = part(experts);
  if (attention_part(name) == "pp") {
    // A stage has whole layers, and one of the ends; the first and the last hold an embedding or a head.
    const int64_t layers = part(shape.layers);
    attention = attention * layers / shape.layers;
    experts = experts * layers / shape.layers;
    replicated = ranks == 1 ? replicated : std::max(counts.embedding, counts.head) + part(counts.router + counts.norms);
  }
  return static_cast<uint64_t>((replicated + attention) * spec.traffic.element_bytes +
                               experts * spec.expert_element_bytes);
}

}  // namespace

StrategyTraffic strategy_traffic(const ModelShape& shape, std::string_view strategy, const TrafficSpec& spec) {
  const auto ranks = static_cast<double>(spec.ranks);
  const double others = (ranks - 1) / ranks;
  const double hidden = static_cast<double>(shape.hidden) * static_cast<double>(spec.element_bytes);  // H b
  const double chosen = shape.experts_per_token;                                                      // k
  const auto own = static_cast<double>(spec.rank_tokens);                                             // n
  const double all = own * ranks;                                                                     // N
  const double keys = static_cast<double>(layer_kv_bytes_per_token(shape, spec.element_bytes));       // 2 G D b
  // Of the parts, one way: all-gather or reduce-scatter of everybody's rows; exchange of a device's own ones, both
  // times.
  const double rows = others * all * hidden;
  const double exchange = 2 * chosen * others * own * hidden;
  if (strategy == "dp+dp") return {};
  if (strategy == "dp+tp") return {.moved_bytes = 2 * rows, .table_bytes = 4 * rows};
  if (strategy == "dp+ep") return {.moved_bytes = exchange, .table_bytes = 2 * exchange};
  if (strategy == "tp+tp") return {.moved_bytes = 4 * rows, .table_bytes = 4 * rows};
  if (strategy == "tp+ep") return {.moved_bytes = 2 * rows + exchange, .table_bytes = 2 * rows + 2 * exchange};
  if (strategy == "sp+tp")
    return {.moved_bytes = others * all * keys + 2 * rows, .table_bytes = others * all * keys + 4 * rows};
  if (strategy == "sp+ep")
    return {.moved_bytes = others * all * keys + exchange, .table_bytes = others * all * keys + 2 * exchange};
  ZP_CHECK(strategy == "pp+pp", "there is no strategy {}", strategy);
  if (spec.ranks == 1) return {};
  return {.moved_bytes = all * hidden, .table_bytes = 2 * all * hidden};
}

std::vector<StrategyReport> compare_strategies(const ModelShape& shape, const StrategySpec& spec) {
  std::vector<StrategyReport> reports;
  for (const std::string_view name : kNames) {
    StrategyReport report{.name = name, .impossible = why_impossible(shape, name, spec.traffic.ranks)};
    report.weight_bytes = weight_bytes(shape, name, spec);
    report.traffic = strategy_traffic(shape, name, spec.traffic);
    if (report.impossible.empty() && report.weight_bytes + spec.other_bytes > spec.limit_bytes)
      report.impossible = fmt::format("a device needs {} of {}", human_bytes(report.weight_bytes + spec.other_bytes),
                                      human_bytes(spec.limit_bytes));
    if (report.impossible.empty() && report.traffic.moved_bytes > 0 && spec.peer_bandwidth <= 0)
      report.impossible = "the devices have no link to each other";
    if (report.impossible.empty()) {
      const double moving = report.traffic.moved_bytes > 0 ? report.traffic.moved_bytes / spec.peer_bandwidth : 0;
      // A pipeline's stages send once a pass, the others once a layer.
      const double sends = name == "pp+pp" ? 1 : shape.layers;
      const double tokens = static_cast<double>(spec.traffic.rank_tokens) * spec.traffic.ranks;
      report.tokens_per_second = tokens / (shape.layers * spec.layer_seconds + sends * moving);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace zp
