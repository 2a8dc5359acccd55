// What a layer does with rows between its products, at the chunk size of whole models.
#pragma once

#include "bench/cuda/gpu_bench.h"

namespace zp::bench {

/// Names begin with "rows/". Rates are those of the bytes that must move through the device's memory.
void bench_rows(Bench& bench, const ModelSizes& model, int64_t tokens);

}  // namespace zp::bench
