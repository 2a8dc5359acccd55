// Builds forward steps.
#include "zp/engine/step_builder.h"

#include "zp/cache/block_hash.h"
#include "zp/ops/ops.h"

namespace zp {
namespace {

static_assert(kBlockTokens % kExtentGranule == 0, "a block must be whole granules of an extent");

std::vector<KvRun> runs_of(std::span<const BlockSource> prefix) {
  std::vector<KvRun> runs;
  for (const BlockSource& block : prefix) {
    const bool pool = block.kind == BlockSource::Kind::kPool;
    const auto place = pool ? KvRun::Place::kPool : KvRun::Place::kStep;
    if (!runs.empty() && runs.back().place == place) {
      KvRun& last = runs.back();
      const int64_t next = last.index + (pool ? last.tokens / kBlockTokens : last.tokens);
      if (next == block.value) {
        last.tokens += kBlockTokens;
        continue;
      }
    }
    runs.push_back({place, block.value, kBlockTokens});
  }
  return runs;
}

void add_keep_runs(const Segment& segment, std::vector<KeepRun>& keep) {
  const size_t first = keep.size();
  for (const BlockStore& store : segment.keep) {
    const int64_t row = segment.row + int64_t{store.block} * kBlockTokens - segment.begin;
    if (keep.size() > first) {
      KeepRun& last = keep.back();
      if (last.row + last.tokens == row && last.block + last.tokens / kBlockTokens == store.pool_block) {
        last.tokens += kBlockTokens;
        continue;
      }
    }
    keep.push_back({row, kBlockTokens, store.pool_block});
  }
}

}  // namespace

ForwardStep build_step(const StepPlan& plan, const std::function<RequestView(uint64_t)>& find) {
  ForwardStep step;
  step.ids.reserve(static_cast<size_t>(plan.tokens));
  step.positions.reserve(static_cast<size_t>(plan.tokens));
  step.candidate_offsets.push_back(0);
  for (const Segment& segment : plan.segments) {
    const RequestView request = find(segment.request);
    step.sequences.push_back({segment.row, segment.tokens(), runs_of(segment.prefix)});
    for (int32_t position = segment.begin; position < segment.end; ++position) {
      step.ids.push_back(request.tokens[static_cast<size_t>(position)]);
      step.positions.push_back(position);
    }
    add_keep_runs(segment, step.keep);
    step.head_rows.push_back(segment.row + segment.tokens() - 1);
    step.candidates.insert(step.candidates.end(), request.candidates.begin(), request.candidates.end());
    step.candidate_offsets.push_back(static_cast<int64_t>(step.candidates.size()));
  }
  return step;
}

}  // namespace zp
