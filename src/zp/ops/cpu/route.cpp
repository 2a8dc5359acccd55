// Routing: the k largest logits of each row and their softmax weights.
#include <algorithm>
#include <cmath>
#include <limits>

#include "zp/ops/cpu/rows.h"

namespace zp::cpu {
namespace {

// NaN ranks last.
float rank_key(float logit) { return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit; }

// Inserts each expert into a sorted list of the best so far. Ids rise, and an equal logit is put after those already
// there, so ties go to the lower id.
void choose(const float* logits, int64_t experts, int64_t chosen, int32_t* ids) {
  int64_t count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const float key = rank_key(logits[e]);
    if (count == chosen && !(key > rank_key(logits[ids[count - 1]]))) continue;
    int64_t place = count < chosen ? count++ : chosen - 1;
    for (; place > 0 && key > rank_key(logits[ids[place - 1]]); --place) ids[place] = ids[place - 1];
    ids[place] = static_cast<int32_t>(e);
  }
}

}  // namespace

void route(Workers& workers, const RouteArgs& args) {
  const int64_t experts = args.logits.dim(1);
  const int64_t chosen = args.ids.dim(1);
  workers.run_rows(args.logits.dim(0), 16 * experts, [&](int64_t t) {
    const float* logits = args.logits.as<float>() + t * experts;
    int32_t* ids = args.ids.as<int32_t>() + t * chosen;
    float* weights = args.weights.as<float>() + t * chosen;
    if (args.table.empty()) {
      choose(logits, experts, chosen, ids);
    } else {
      const auto at = static_cast<size_t>(t);
      const int64_t row = drawn_route(args.tokens[at], args.positions[at], args.table.dim(0));
      std::copy_n(args.table.as<int32_t>() + row * chosen, chosen, ids);
    }
    const float top = workers.kernels().largest(logits, experts);
    const float sum = workers.kernels().sum_exp(logits, top, experts);
    // Drawn experts may be far below the top, where exponentials lose digits; the sum of all cancels out.
    float base = top;
    if (!args.table.empty() && args.normalize) {
      base = logits[ids[0]];
      for (int64_t j = 1; j < chosen; ++j) base = std::max(base, logits[ids[j]]);
    }
    float chosen_sum = 0;
    for (int64_t j = 0; j < chosen; ++j) {
      weights[j] = std::exp(logits[ids[j]] - base) / sum;
      chosen_sum += weights[j];
    }
    if (!args.normalize) return;
    for (int64_t j = 0; j < chosen; ++j) weights[j] /= chosen_sum;
  });
}

}  // namespace zp::cpu
