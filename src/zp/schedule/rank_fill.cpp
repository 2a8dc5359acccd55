// Reuse within a step, limits of a step, and which of its blocks are kept.
#include "zp/schedule/rank_fill.h"

#include <algorithm>
#include <limits>

namespace zp {

int32_t RankFill::reusable(const QueuedRequest& request, int32_t resident) const {
  const int32_t most = reusable_max(request.tokens());
  int32_t blocks = std::min(resident, most);
  while (blocks < most && fresh_.find(request.path[static_cast<size_t>(blocks)]) != nullptr) ++blocks;
  return blocks;
}

bool RankFill::below_target(bool pressing, bool beyond_share) const {
  const LoadRule& rule = input_.config->load;
  if (pressing_ && !pressing) return step_.load < std::min(target_, rule.target_deadline);
  return step_.load < (beyond_share && !closed() ? std::max(limit(), rule.target) : limit());
}

double RankFill::limit() const {
  const LoadRule& rule = input_.config->load;
  if (closed()) return 0;
  double limit = std::max(target_, rest_limit_);
  if (left_ - step_.load < rule.floor) limit = std::max(limit, left_);
  return limit;
}

bool RankFill::suits(double load) const {
  return step_.load < target_ || step_.load + load <= limit() + input_.config->load.floor;
}

bool RankFill::hardly_fits(double load) const {
  const double is_long = std::max(input_.config->load.floor, PrefixSaturationPolicy::kLongShare * target_);
  return at_end() && !step_.segments.empty() && load > is_long && step_.load + load / 2 > target_;
}

void RankFill::take_rest(double limit) {
  const LoadRule& rule = input_.config->load;
  rest_limit_ = limit;
  joining_limit_ = std::max({step_.load, target_, rule.target}) + rule.floor;
}

bool RankFill::worth_joining(double saved) const {
  return !pressing_ && step_.load < input_.config->load.target && step_.load <= kWaitForSaving * saved;
}

bool RankFill::crowded(double load) const { return at_end() && !has_share(load); }

bool RankFill::may_take_more(int64_t tokens) const {
  return closed() && step_.load < input_.config->load.target && fits(tokens);
}

int64_t RankFill::room() const {
  if (step_.segments.empty()) return std::numeric_limits<int64_t>::max();
  return input_.config->step_tokens_max - step_.tokens;
}

bool RankFill::fits(int64_t tokens) const { return tokens <= room(); }

void RankFill::place(const QueuedRequest& request, int32_t reused, int32_t resident) {
  const auto whole = static_cast<int32_t>(request.path.size());
  PlannedSegment segment{.request = &request,
                         .begin = reused * kBlockTokens,
                         .end = static_cast<int32_t>(request.tokens()),
                         .row = step_.tokens};
  segment.prefix.reserve(static_cast<size_t>(reused));
  BlockId pool_block = kNoBlock;
  for (int32_t i = 0; i < reused; ++i) {
    const NodeId node = request.path[static_cast<size_t>(i)];
    if (i < resident) {
      pool_block = input_.index->block_after(pool_block, node, step_.rank);
      segment.prefix.push_back({BlockSource::Kind::kPool, pool_block});
      // Pending blocks start nowhere but after committed ones, so the last pool block tells.
      if (i + 1 == std::min(resident, reused) && input_.index->residency(node, step_.rank) == Residency::kPending)
        step_.relies_on = input_.ranks[static_cast<size_t>(step_.rank)].unfinished_step;
    } else {
      Fresh& fresh = *fresh_.find(node);
      segment.prefix.push_back({BlockSource::Kind::kStep, fresh.row});
      fresh.read = true;
      ++fresh.segments;
    }
  }
  for (int32_t i = reused; i < whole; ++i) {
    const NodeId node = request.path[static_cast<size_t>(i)];
    if (i < resident) continue;  // The last block, known and computed again.
    if (input_.index->tree().references(node) == 1) {
      segment.fresh_blocks += whole - i;
      break;
    }
    if (fresh_.insert(node, {.row = segment.row + (i - reused) * kBlockTokens})) {
      ++segment.fresh_blocks;
    } else {
      ++fresh_.find(node)->segments;  // Likewise, known from this step.
    }
  }
  const RequestCost cost = input_.cost->cost({.prefix = segment.begin, .suffix = int64_t{segment.end} - segment.begin});
  step_.cost += cost;
  step_.target = std::max({step_.target, limit(), step_.load < limit() ? 0 : joining_limit_});
  step_.tokens += cost.tokens;
  sequence_tokens_ += request.tokens();
  step_.load += input_.config->load.load(cost);
  pressing_ = pressing_ || request.presses(input_.pressing_ns);
  step_.segments.push_back(std::move(segment));
}

void RankFill::turned_away(bool pressing) {
  (below_target(pressing, true) ? away_for_room_ : away_for_deadline_) = true;
}

PlannedStep RankFill::finish() {
  step_.target = closed() ? input_.config->load.target : std::max(step_.target, target_);
  if (step_.load >= step_.target) {
    step_.filled_by = StopReason::kTarget;
  } else if (away_for_deadline_) {
    step_.filled_by = StopReason::kDeadline;
  } else if (away_for_room_) {
    step_.filled_by = StopReason::kCapacity;
  } else {
    step_.filled_by = input_.more_waiting ? StopReason::kLookAhead : StopReason::kQueueEnded;
  }
  choose_kept();
  return std::move(step_);
}

// How many of a segment's fresh blocks somebody is known to want: a leading run, since whoever wants a block wants all
// before it.
void RankFill::count_wanted(PlannedSegment& segment) {
  const std::vector<NodeId>& path = segment.request->path;
  const auto first = static_cast<size_t>(segment.begin / kBlockTokens);
  while (segment.keep_wanted < segment.fresh_blocks) {
    const NodeId node = path[first + static_cast<size_t>(segment.keep_wanted)];
    const int32_t references = input_.index->tree().references(node);
    if (references == 1) return;
    const Fresh& fresh = *fresh_.find(node);
    // The references that this step's own requests do not account for are other waiting requests.
    if (!fresh.read && references <= fresh.segments) return;
    ++segment.keep_wanted;
  }
}

// Wanted blocks may push out anything that is not pinned. Blocks read once so far may take free room and the places of
// their own kind, and beyond that only a small share of the pool, so that a burst of them leaves the prefixes that are
// read often. Room runs out in the order of the segments, so a block is kept only if the one before it is.
void RankFill::choose_kept() {
  const SchedulerConfig& config = *input_.config;
  const RoomCounts counts = pool_room();
  int64_t left = int64_t{counts.free} + counts.one_off + counts.reused;
  int64_t wanted_kept = 0;
  for (PlannedSegment& segment : step_.segments) {
    count_wanted(segment);
    segment.keep_wanted = static_cast<int32_t>(std::min<int64_t>(segment.keep_wanted, left));
    segment.keep = segment.keep_wanted;
    left -= segment.keep;
    wanted_kept += segment.keep;
  }
  if (!config.keep_one_off_blocks) return;
  const int32_t capacity = input_.index->pool(step_.rank).capacity();
  const auto share = static_cast<int64_t>(config.one_off_share * capacity) - counts.one_off_pinned;
  const int64_t without_loss = int64_t{counts.free} + counts.one_off - wanted_kept;
  left = std::min(left, std::max({without_loss, share, int64_t{0}}));
  for (PlannedSegment& segment : step_.segments) {
    const auto more = static_cast<int32_t>(std::min<int64_t>(segment.fresh_blocks - segment.keep, left));
    segment.keep += more;
    left -= more;
  }
}

// What the rank could give to this step, once the blocks that the step reads are pinned.
RoomCounts RankFill::pool_room() const {
  const PrefixIndex& index = *input_.index;
  const int32_t rank = step_.rank;
  RoomCounts counts = index.room(rank);
  NodeMap<bool> read;
  for (const PlannedSegment& segment : step_.segments) {
    size_t resident = segment.prefix.size();
    while (resident > 0 && segment.prefix[resident - 1].kind == BlockSource::Kind::kStep) --resident;
    // From the last block to the first: where a block was seen, all before it were.
    for (size_t i = resident; i-- > 0;) {
      const NodeId node = segment.request->path[i];
      if (index.pinned(node, rank) || !read.insert(node, true)) break;
      --(index.reused(node, rank) ? counts.reused : counts.one_off);
    }
  }
  return counts;
}

}  // namespace zp
