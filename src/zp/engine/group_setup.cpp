// Decides the sizes of a synchronous group.
#include "zp/engine/group_setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/host_info.h"
#include "zp/base/math.h"
#include "zp/cache/block_hash.h"
#include "zp/engine/lockstep_group.h"
#include "zp/engine/source.h"
#include "zp/engine/weight_bytes.h"

namespace zp {
namespace {

GroupLayout layout_of(const EngineConfig& config, const ModelShape& shape) {
  const std::optional<Strategy> strategy = parse_strategy(config.strategy);
  if (!strategy)
    fail(ErrorCode::kInvalidArgument,
         "strategy is {}; it must be 'asyncep', 'dp+ep', 'dp+tp', 'tp+ep', 'tp+tp' or 'pp+pp'",
         quote_excerpt(config.strategy));
  const GroupLayout layout{.strategy = *strategy, .ranks = config.ranks};
  if (const auto found = problems(shape, layout); !found.empty())
    fail(ErrorCode::kInvalidArgument, "{}", fmt::join(found, "; "));
  return layout;
}

// A rank's weights but experts. Only the first stage of a pipeline embeds, and only the last one has the head.
uint64_t weight_bytes_of(const ModelShape& model, const ModelShard& shard, const Device& device, const OpsSpec& ops) {
  uint64_t bytes = replicated_weight_bytes(shape_of(model, shard), device, ops);
  if (shard.layers.begin > 0)
    bytes -= static_cast<uint64_t>(model.vocabulary) * static_cast<uint64_t>(model.hidden) * size_of(*ops.activation);
  if (shard.layers.end() < model.layers)
    bytes -= packed_matrix_bytes(device, ops, model.vocabulary, model.hidden) +
             static_cast<uint64_t>(model.hidden) * sizeof(float);
  return bytes;
}

uint64_t expert_bytes_of(const ModelShape& shape, const ModelShard& shard, const Device& device, const OpsSpec& ops) {
  if (shape.moe_layers() == 0) return 0;
  return packed_expert_bytes(device, ops, {.hidden = shape.hidden, .intermediate = shape.expert_intermediate}) *
         static_cast<uint64_t>(shard.experts.count) * static_cast<uint64_t>(shape.moe_layers());
}

// What ranks take, the most that any of them takes of each.
std::vector<MemoryItem> rank_items(const WeightSource& source, const Device& device, const GroupSpec& spec) {
  const ModelShape& model = source.shape();
  const OpsSpec& ops = spec.rank.ops;
  uint64_t weights = 0;
  uint64_t experts = 0;
  uint64_t buffers = 0;
  for (int32_t rank = 0; rank < spec.layout.ranks; ++rank) {
    const ModelShard shard = shard_of(model, spec.layout, rank);
    weights = std::max(weights,
                       weight_bytes_of(model, shard, device, ops) + route_table_bytes(source, shape_of(model, shard)));
    experts = std::max(experts, expert_bytes_of(shape_of(model, shard), shard, device, ops));
    buffers = std::max<uint64_t>(buffers, group_buffer_bytes(model, spec, rank));
  }
  return {{"replicated weights", weights},
          {"experts", experts},
          {"activations", buffers},
          {"scratch of operations", ops_scratch_bytes(device, ops)}};
}

size_t block_bytes_max(const ModelShape& model, const GroupSpec& spec) {
  size_t bytes = 0;
  for (int32_t rank = 0; rank < spec.layout.ranks; ++rank)
    bytes = std::max(bytes, KvPool::block_bytes(shape_of(model, shard_of(model, spec.layout, rank)),
                                                *spec.rank.ops.activation, kBlockTokens));
  return bytes;
}

EngineSetup decide_group_setup(const EngineConfig& config, const WeightSource& source) {
  const ModelShape& shape = source.shape();
  GroupSpec spec;
  spec.layout = layout_of(config, shape);
  spec.pace = {.bytes_per_second = config.experts.peer_link.bytes_per_second,
               .latency_ns = config.experts.peer_link.latency_us * 1000};
  spec.rank.device = parse_device(config.device);
  const int32_t threads = config.threads > 0 ? config.threads : usable_cores();
  spec.rank.device.threads = std::max(1, threads / spec.layout.ranks);
  const std::unique_ptr<Device> device = make_device(spec.rank.device);

  EngineSetup setup;
  setup.scheduler = scheduler_config(config, shape);
  spec.rank.limits = forward_limits(config, setup.scheduler.max_request_tokens);
  require_token_limits(spec.rank.limits, setup.scheduler.max_request_tokens,
                       ops_token_limits(*device, shape.query_heads / shape.kv_heads));
  // A round has a row for each rank at least, and as many for all of them.
  spec.rank.limits.chunk_tokens =
      round_up(std::max(spec.rank.limits.chunk_tokens, int64_t{spec.layout.ranks}), int64_t{spec.layout.ranks});
  spec.rank.ops = ops_spec(config, shape, compute_dtype(config, source, *device), spec.rank.limits);

  setup.memory.ranks = spec.layout.ranks;
  setup.memory.host.items = host_items(config, setup.scheduler.max_request_tokens);
  plan_metadata(*device, spec.layout.ranks, setup.memory.host);
  setup.pending_bytes_max = config.max_pending_bytes;
  setup.memory.rank.items = rank_items(source, *device, spec);
  set_limits(config, *device, setup.memory);
  plan_loading(config, source, *device, setup);
  spec.load_lanes = setup.load_lanes;
  const size_t block_bytes = block_bytes_max(shape, spec);
  const int32_t kv_blocks = plan_kv_blocks(config, block_bytes, setup.memory.rank);
  spec.rank.kv_blocks = kv_blocks;
  setup.scheduler.pool_blocks.assign(static_cast<size_t>(LockstepGroup::runner_count(spec.layout)), kv_blocks);
  setup.model_revision = model_revision(config);
  setup.group = spec;
  setup.policy = config.policy;
  return setup;
}

}  // namespace

EngineSetup make_group_setup(const EngineConfig& config, const WeightSource& source) {
  EngineSetup setup =
      decide_sizes(config, [&](const EngineConfig& sized) { return decide_group_setup(sized, source); });
  require_fits(setup.memory, "Fewer ranks, a smaller max_context_tokens or a smaller kv_cache_bytes take less");
  return setup;
}

}  // namespace zp
