// Longest match, then least load, then lowest rank.
#include "zp/schedule/policy.h"

namespace zp {

int32_t PrefixSaturationPolicy::choose(std::span<const RankChoice> ranks) const {
  const RankChoice* best = nullptr;
  for (const RankChoice& choice : ranks) {
    if (!choice.eligible) continue;
    const bool better =
        best == nullptr || choice.matched_blocks > best->matched_blocks ||
        (choice.matched_blocks == best->matched_blocks && choice.load_unfinished < best->load_unfinished);
    if (better) best = &choice;
  }
  return best == nullptr ? -1 : best->rank;
}

}  // namespace zp
