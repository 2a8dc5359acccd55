// Decides where experts live, from the configuration and the memory of a rank.
#pragma once

#include <cstdint>

#include "zeroprefill/engine.h"
#include "zp/engine/memory_plan.h"
#include "zp/expert/placement.h"
#include "zp/shape/model_shape.h"

namespace zp {

/// What the choice depends on.
struct ExpertRoom {
  size_t blob_bytes = 0;
  uint64_t rank_bytes = 0;  ///< of a rank's memory that experts may take, slots and window included
};

[[nodiscard]] Placement place_experts(const EngineConfig& config, const ModelShape& shape, const ExpertRoom& room);

/// What experts take of a rank: of the one that holds most.
[[nodiscard]] std::vector<MemoryItem> expert_memory(const EngineConfig& config, const Placement& placement,
                                                    size_t blob_bytes);
/// What they take of host memory.
[[nodiscard]] uint64_t host_expert_bytes(const Placement& placement, size_t blob_bytes);

/// Names of problems with `config.experts` and its links are added to `problems`.
void validate_experts(const EngineConfig& config, std::vector<std::string>& problems);

}  // namespace zp
