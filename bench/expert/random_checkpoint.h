// A small Qwen3-MoE checkpoint of random weights, whose shape the caller chooses.
#pragma once

#include <cstdint>
#include <filesystem>

namespace zp::bench {

struct CheckpointShape {
  int32_t layers = 6;
  int32_t hidden = 32;
  int32_t query_heads = 2;
  int32_t kv_heads = 1;
  int32_t head_dim = 16;
  int32_t experts = 64;
  int32_t experts_per_token = 4;
  int32_t expert_intermediate = 32;
  int32_t vocabulary = 128;
  int32_t max_positions = 4096;
};

/// Writes config.json and model.safetensors (f32) into an existing folder.
void write_random_checkpoint(const std::filesystem::path& folder, const CheckpointShape& shape, uint32_t seed);

}  // namespace zp::bench
