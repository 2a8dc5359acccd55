// Cuts steps.
#include "zp/parallel/step_parts.h"

#include <algorithm>
#include <unordered_map>

#include "zp/base/check.h"
#include "zp/base/math.h"

namespace zp {
namespace {

// Where each kept block of a step goes: its first row -> its pool block.
using KeptBlocks = std::unordered_map<int64_t, int64_t>;

KeptBlocks kept_blocks(const ForwardStep& step, int32_t block_tokens) {
  KeptBlocks kept;
  for (const KeepRun& run : step.keep)
    for (int32_t t = 0; t < run.tokens; t += block_tokens) kept.emplace(run.row + t, run.block + t / block_tokens);
  return kept;
}

// The first row of this step that a sequence needs and that is not kept: it cannot be cut off from there. Its own first
// row if there is none.
int64_t bound_to(const StepSequence& sequence, const KeptBlocks& kept, int32_t block_tokens) {
  int64_t first = sequence.row;
  for (const KvRun& run : sequence.prefix) {
    if (run.place != KvRun::Place::kStep) continue;
    for (int32_t t = 0; t < run.tokens; t += block_tokens)
      if (!kept.contains(run.index + t)) first = std::min(first, run.index + t);
  }
  return first;
}

// Sequence numbers at which micro-batches begin; the first is 0.
std::vector<size_t> cuts_of(const ForwardStep& step, int32_t count, const KeptBlocks& kept, int32_t block_tokens) {
  // allowed_from[i]: no sequence from i on needs unkept rows before sequence i.
  std::vector<bool> allowed(step.sequences.size());
  int64_t first_needed = static_cast<int64_t>(step.ids.size());
  for (size_t i = step.sequences.size(); i-- > 0;) {
    first_needed = std::min(first_needed, bound_to(step.sequences[i], kept, block_tokens));
    allowed[i] = first_needed >= step.sequences[i].row;
  }
  const int64_t target = ceil_div(static_cast<int64_t>(step.ids.size()), int64_t{count});
  std::vector<size_t> cuts = {0};
  for (size_t i = 1; i < step.sequences.size(); ++i) {
    const int64_t filled = step.sequences[i].row - step.sequences[cuts.back()].row;
    if (allowed[i] && filled >= target) cuts.push_back(i);
  }
  return cuts;
}

// A sequence's prefix within the micro-batch whose first row is `base`.
std::vector<KvRun> rebase(std::span<const KvRun> prefix, int64_t base, const KeptBlocks& kept, int32_t block_tokens) {
  std::vector<KvRun> runs;
  const auto add = [&](const KvRun& run) {
    if (!runs.empty() && runs.back().place == run.place) {
      KvRun& last = runs.back();
      const int64_t next =
          last.index + (run.place == KvRun::Place::kPool ? last.tokens / block_tokens : int64_t{last.tokens});
      if (next == run.index) {
        last.tokens += run.tokens;
        return;
      }
    }
    runs.push_back(run);
  };
  for (const KvRun& run : prefix) {
    if (run.place == KvRun::Place::kPool) {
      add(run);
      continue;
    }
    for (int32_t t = 0; t < run.tokens; t += block_tokens) {
      const int64_t row = run.index + t;
      if (row >= base) {
        add({KvRun::Place::kStep, row - base, block_tokens});
      } else {
        add({KvRun::Place::kPool, kept.at(row), block_tokens});
      }
    }
  }
  return runs;
}

}  // namespace

std::vector<HeadPart> split_heads(const ForwardStep& step, std::span<const int32_t> part_of_row, int32_t parts) {
  std::vector<HeadPart> split(static_cast<size_t>(parts));
  for (size_t h = 0; h < step.head_rows.size(); ++h) {
    const int32_t part = part_of_row[static_cast<size_t>(step.head_rows[h])];
    split[static_cast<size_t>(part)].rows.push_back(static_cast<int64_t>(h));
  }
  return split;
}

ForwardStep with_heads(const ForwardStep& step, const HeadPart& part) {
  ForwardStep cut;
  cut.ids = step.ids;
  cut.positions = step.positions;
  cut.sequences = step.sequences;
  cut.keep = step.keep;
  cut.candidate_offsets.push_back(0);
  for (const int64_t h : part.rows) {
    const auto head = static_cast<size_t>(h);
    cut.head_rows.push_back(step.head_rows[head]);
    cut.candidates.insert(cut.candidates.end(), step.candidates.begin() + step.candidate_offsets[head],
                          step.candidates.begin() + step.candidate_offsets[head + 1]);
    cut.candidate_offsets.push_back(static_cast<int64_t>(cut.candidates.size()));
  }
  return cut;
}

void merge_heads(const ForwardStep& step, const HeadPart& part, const ForwardResult& from, ForwardResult& result) {
  result.logits.resize(step.candidates.size());
  result.log_sum_exp.resize(step.head_rows.size());
  auto logit = from.logits.begin();
  for (size_t i = 0; i < part.rows.size(); ++i) {
    const auto head = static_cast<size_t>(part.rows[i]);
    const int64_t count = step.candidate_offsets[head + 1] - step.candidate_offsets[head];
    std::copy_n(logit, count, result.logits.begin() + step.candidate_offsets[head]);
    logit += count;
    result.log_sum_exp[head] = from.log_sum_exp[i];
  }
}

std::vector<MicroBatch> split_step(const ForwardStep& step, int32_t count, int32_t block_tokens) {
  ZP_CHECK(count >= 1, "{} micro-batches", count);
  std::vector<MicroBatch> batches;
  if (step.sequences.empty()) return batches;
  const KeptBlocks kept = kept_blocks(step, block_tokens);
  const std::vector<size_t> cuts = cuts_of(step, count, kept, block_tokens);
  for (size_t c = 0; c < cuts.size(); ++c) {
    const size_t last = c + 1 < cuts.size() ? cuts[c + 1] : step.sequences.size();
    const int64_t base = step.sequences[cuts[c]].row;
    const int64_t end = step.sequences[last - 1].row + step.sequences[last - 1].tokens;
    HeadPart heads;
    for (size_t h = 0; h < step.head_rows.size(); ++h)
      if (step.head_rows[h] >= base && step.head_rows[h] < end) heads.rows.push_back(static_cast<int64_t>(h));
    MicroBatch& batch = batches.emplace_back(MicroBatch{{}, heads});
    ForwardStep& part = batch.step;
    part.ids.assign(step.ids.begin() + base, step.ids.begin() + end);
    part.positions.assign(step.positions.begin() + base, step.positions.begin() + end);
    for (size_t i = cuts[c]; i < last; ++i) {
      const StepSequence& sequence = step.sequences[i];
      part.sequences.push_back(
          {sequence.row - base, sequence.tokens, rebase(sequence.prefix, base, kept, block_tokens)});
    }
    for (const KeepRun& run : step.keep)
      if (run.row >= base && run.row < end) part.keep.push_back({run.row - base, run.tokens, run.block});
    const ForwardStep with_candidates = with_heads(step, heads);
    part.candidate_offsets = with_candidates.candidate_offsets;
    part.candidates = with_candidates.candidates;
    for (const int64_t row : with_candidates.head_rows) part.head_rows.push_back(row - base);
  }
  return batches;
}

}  // namespace zp
