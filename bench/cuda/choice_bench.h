// What it costs that a dense product has one algorithm whatever the number of tokens.
#pragma once

#include "bench/cuda/gpu_bench.h"

namespace zp::bench {

/// Names begin with "choice/": each of the model's projections for 16 to 32,768 tokens, by the engine's fixed algorithm
/// and by the one that cuBLASLt puts first for just that number of tokens, split sums allowed.
void bench_choice(Bench& bench, const ModelSizes& model);

}  // namespace zp::bench
