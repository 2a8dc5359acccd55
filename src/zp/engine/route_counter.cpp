// Counts rows of the tables, and turns them into experts when asked.
#include "zp/engine/route_counter.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "zp/base/check.h"

namespace zp {

RouteCounter::RouteCounter(const WeightSource& source, double asked_skew)
    : source_(source), asked_skew_(asked_skew), rows_(static_cast<size_t>(kRouteTableRows)) {}

void RouteCounter::add(std::span<const int32_t> tokens, std::span<const int32_t> positions) {
  ZP_CHECK(tokens.size() == positions.size(), "{} tokens, {} positions", tokens.size(), positions.size());
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < tokens.size(); ++i)
    ++rows_[static_cast<size_t>(drawn_route(tokens[i], positions[i], kRouteTableRows))];
}

RouteStats RouteCounter::stats() const {
  const std::lock_guard lock(mutex_);
  const ModelShape& m = source_.shape();
  if (tables_.empty())
    for (int32_t l = 0; l < m.layers; ++l)
      if (m.feed_forward[static_cast<size_t>(l)] == FeedForward::kMoe) tables_.push_back(source_.route_table(l));
  RouteStats stats{.asked_skew = asked_skew_};
  stats.tokens = std::accumulate(rows_.begin(), rows_.end(), int64_t{0});
  for (const std::vector<int32_t>& table : tables_) {
    std::vector<int64_t> experts(static_cast<size_t>(m.experts));
    for (size_t i = 0; i < table.size(); ++i)
      experts[static_cast<size_t>(table[i])] += rows_[i / static_cast<size_t>(m.experts_per_token)];
    const auto [least, most] = std::ranges::minmax(experts);
    const double skew =
        least > 0 ? static_cast<double>(most) / static_cast<double>(least) : std::numeric_limits<double>::infinity();
    stats.skew_mean += skew / static_cast<double>(tables_.size());
    stats.skew_max = std::max(stats.skew_max, skew);
  }
  return stats;
}

}  // namespace zp
