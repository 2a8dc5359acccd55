// One rank of a lock-step group: its device, its part of the model, and its part of every step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zp/device/factory.h"
#include "zp/engine/rank.h"
#include "zp/model/forward.h"
#include "zp/model/weights.h"
#include "zp/parallel/collectives.h"
#include "zp/parallel/group_forward.h"
#include "zp/parallel/group_layout.h"
#include "zp/parallel/pipeline_forward.h"
#include "zp/parallel/sharded_experts.h"

namespace zp {

/// What a group is made of.
struct GroupSpec {
  GroupLayout layout;
  RankSpec rank;               ///< of every rank; limits.chunk_tokens is over all ranks, and at least as many
  LinkPace pace;               ///< of the links between virtual ranks
  LoadLanesSpec load_lanes{};  ///< where devices pack weights themselves
};

/// The memory that a rank takes besides its weights, experts and kept keys and values.
[[nodiscard]] size_t group_buffer_bytes(const ModelShape& model, const GroupSpec& spec, int32_t rank);

/// Used by one thread at a time, that of its rank.
class GroupMember final {
 public:
  /// Loads the rank's part of the model; blocks. `files` outlives it.
  GroupMember(const GroupSpec& spec, const WeightSource& source, std::unique_ptr<Collectives> collectives);

  /// This rank's part of a step: one ForwardStep, or the micro-batches of a pipeline. `tokens`: as GroupForward has it.
  struct Work {
    std::vector<const ForwardStep*> steps;
    std::span<const int64_t> tokens;
  };
  /// Runs in lock-step with the other members. One result a step. Throws, and aborts the group, when anything fails.
  [[nodiscard]] std::vector<ForwardResult> run(const Work& work);
  /// Ends the stream: no act of this rank runs any more. Called on all members before any is destroyed, since ranks
  /// read each other's memory.
  void close() { stream_.reset(); }

  /// As Collectives::abort().
  void abort(const std::exception_ptr& cause) noexcept { collectives_->abort(cause); }

  [[nodiscard]] const Collectives& collectives() const noexcept { return *collectives_; }
  [[nodiscard]] std::string device_description() const { return device_->description(); }
  [[nodiscard]] std::string_view operations() const { return ops_->description(); }

 private:
  struct Loaded {
    ModelWeights weights;
    ShardedExperts experts;
  };
  // Reads and packs this rank's part; what that takes besides is gone when it returns.
  [[nodiscard]] Loaded load(const WeightSource& source, const LoadLanesSpec& spec);

  std::unique_ptr<Collectives> collectives_;
  ModelShard shard_;
  ModelShape model_;
  ModelShape shape_;  // of this rank
  std::unique_ptr<Device> device_;
  std::unique_ptr<Ops> ops_;
  Loaded loaded_;
  SourceMoe moe_;
  KvPool kv_pool_;
  Forward forward_;
  std::unique_ptr<GroupForward> group_;        // null for a pipeline
  std::unique_ptr<PipelineForward> pipeline_;  // null otherwise
  std::unique_ptr<Stream> stream_;
};

}  // namespace zp
