// A large Qwen3-MoE checkpoint on disk, written as fast as the disk takes it: a shard a layer, bf16.
#pragma once

#include <cstdint>
#include <filesystem>

#include "zp/shape/model_shape.h"

namespace zp::bench {

/// Of the weights.
inline constexpr uint32_t kCheckpointSeed = 1;

/// Writes config.json, the index and the shards into an existing folder. Weights are small numbers that repeat: their
/// values do not matter. The shape is that of a Qwen3 MoE model without dense layers.
void write_bulk_checkpoint(const std::filesystem::path& folder, const ModelShape& shape, int32_t threads);

}  // namespace zp::bench
