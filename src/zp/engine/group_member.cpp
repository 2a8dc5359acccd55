// Puts a rank of a group together.
#include "zp/engine/group_member.h"

#include "zp/cache/block_hash.h"

namespace zp {
namespace {

OpsSpec ops_of(const OpsSpec& spec, const ModelShape& shape) {
  OpsSpec own = spec;
  own.limits.expert.intermediate = shape.expert_intermediate;
  return own;
}

}  // namespace

size_t group_buffer_bytes(const ModelShape& model, const GroupSpec& spec, int32_t rank) {
  const ModelShape shape = shape_of(model, shard_of(model, spec.layout, rank));
  const DType activation = *spec.rank.ops.activation;
  const ForwardLimits& limits = spec.rank.limits;
  const size_t exchange = spec.layout.is_pipeline()
                              ? PipelineForward::buffer_bytes(shape.hidden, activation, limits.tokens)
                              : GroupForward::buffer_bytes(shape, spec.layout, activation, limits.chunk_tokens);
  return Forward::activation_bytes(shape, activation, limits) + exchange;
}

GroupMember::GroupMember(const GroupSpec& spec, const WeightSource& source, std::unique_ptr<Collectives> collectives)
    : collectives_(std::move(collectives)),
      shard_(shard_of(source.shape(), spec.layout, collectives_->rank())),
      model_(source.shape()),
      shape_(shape_of(model_, shard_)),
      device_(make_device(spec.rank.device)),
      ops_(make_ops(*device_, ops_of(spec.rank.ops, shape_))),
      loaded_(load(source, spec.load_lanes)),
      moe_(*ops_, loaded_.experts, {shape_.hidden, shape_.expert_intermediate}),
      kv_pool_(*device_, shape_, ops_->activation_dtype(), kBlockTokens, spec.rank.kv_blocks),
      forward_({*device_, *ops_, shape_, loaded_.weights, moe_, kv_pool_}, spec.rank.limits),
      stream_(device_->create_stream("compute")) {
  if (spec.layout.is_pipeline()) {
    pipeline_ = std::make_unique<PipelineForward>(
        PipelineForward::Parts{*device_, *ops_, shard_.layers, shape_.hidden, forward_, *collectives_},
        spec.rank.limits.tokens);
  } else {
    group_ = std::make_unique<GroupForward>(
        GroupForward::Parts{*device_, *ops_, model_, shape_, spec.layout, forward_, loaded_.experts, *collectives_},
        spec.rank.limits.chunk_tokens);
  }
}

GroupMember::Loaded GroupMember::load(const WeightSource& source, const LoadLanesSpec& spec) {
  DevicePacking* packs = source.stored() != nullptr ? ops_->device_packing() : nullptr;
  const std::unique_ptr<LoadLanes> lanes =
      packs != nullptr ? std::make_unique<LoadLanes>(*device_, *packs, spec) : nullptr;
  const ExpertReader reader(source, *ops_, shard_);
  return {
      load_weights(source, shard_, *device_, *ops_, lanes.get()),
      ShardedExperts({.shape = shape_, .shard = shard_, .reader = reader, .device = *device_, .lanes = lanes.get()})};
}

std::vector<ForwardResult> GroupMember::run(const Work& work) {
  if (pipeline_) return pipeline_->run(*stream_, work.steps);
  std::vector<ForwardResult> results;
  results.push_back(group_->run(*stream_, *work.steps.front(), work.tokens));
  return results;
}

}  // namespace zp
