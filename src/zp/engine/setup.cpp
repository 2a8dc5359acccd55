// Decides an engine's sizes.
#include "zp/engine/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/host_info.h"
#include "zp/base/human.h"
#include "zp/base/whole_number.h"
#include "zp/cache/block_hash.h"
#include "zp/cache/prefix_index.h"
#include "zp/engine/expert_setup.h"
#include "zp/engine/hiding_steps.h"
#include "zp/engine/source.h"
#include "zp/engine/target_setup.h"
#include "zp/engine/weight_bytes.h"

namespace zp {
namespace {

constexpr int64_t kHeadRows = 64;

// What steps and chunks are made of unless somebody said.
struct StepSizes {
  int64_t step_tokens;
  int64_t chunk_tokens;
};
constexpr StepSizes kCpuSizes{.step_tokens = kCpuStepTokens, .chunk_tokens = 2048};
constexpr StepSizes kCudaSizes{.step_tokens = kGpuStepTokens, .chunk_tokens = 16384};

// Everything but experts, and keys and values.
EngineMemory fixed_memory(const EngineConfig& config, const WeightSource& source, const Device& device,
                          const OpsSpec& ops, const ForwardLimits& limits) {
  EngineMemory memory;
  memory.ranks = config.ranks;
  memory.rank.items = {{"replicated weights", replicated_weight_bytes(source.shape(), device, ops) +
                                                  route_table_bytes(source, source.shape())},
                       {"activations", Forward::activation_bytes(source.shape(), *ops.activation, limits)},
                       {"scratch of operations", ops_scratch_bytes(device, ops)}};
  return memory;
}

// Bytes of an expert's blob.
size_t blob_bytes_of(const Device& device, const ModelShape& shape, const OpsSpec& ops) {
  if (shape.moe_layers() == 0) return 0;
  return packed_expert_bytes(device, ops, {.hidden = shape.hidden, .intermediate = shape.expert_intermediate});
}

std::shared_ptr<Link> make_link(const LinkConfig& config, std::string name) {
  if (config.bytes_per_second == 0 && config.latency_us == 0) return nullptr;
  return std::make_shared<Link>(LinkSpec{
      .name = std::move(name), .bytes_per_second = config.bytes_per_second, .latency_ns = config.latency_us * 1000});
}

DeviceSpec rank_device(const EngineConfig& config, const DeviceSpec& first, int32_t rank) {
  DeviceSpec device = first;
  device.index += rank;
  device.peer_link = make_link(config.experts.peer_link, fmt::format("the peer link of rank {}", rank));
  device.host_link = make_link(config.experts.host_link, fmt::format("the host link of rank {}", rank));
  return device;
}

// Host memory for experts has a limit of its own, if one is given.
void require_host_bytes(const EngineConfig& config, uint64_t on_host) {
  if (on_host <= config.experts.host_bytes.value_or(on_host)) return;
  fail(ErrorCode::kOutOfMemory,
       "experts in host memory take {}; the given limit of host memory is {}. More ranks, or more memory of each rank "
       "for experts, leave less to it",
       human_bytes(on_host), human_bytes(*config.experts.host_bytes));
}

// Adds what experts take to the plans of a rank and of the host, and decides where they live.
void plan_experts(const EngineConfig& config, const WeightSource& source, const Device& device, const OpsSpec& ops,
                  EngineSetup& setup) {
  const size_t blob_bytes = setup.blob_bytes = blob_bytes_of(device, source.shape(), ops);
  // Unless told how much to keep of keys and values, an eighth is left to them.
  const uint64_t left = left_bytes(setup.memory.rank);
  const uint64_t kv = config.kv_cache_bytes.value_or(std::min(left / 8, kDefaultKvBytesMax));
  setup.placement = place_experts(config, source.shape(), {blob_bytes, left > kv ? left - kv : 0});
  for (MemoryItem& item : expert_memory(config, setup.placement, blob_bytes))
    setup.memory.rank.items.push_back(std::move(item));
  setup.step_modes =
      decide_step_modes(config, source.shape(), {setup.placement, device, ops, left_bytes(setup.memory.rank)});
  if (const uint64_t sending = sending_bytes(source.shape(), device, ops, setup.step_modes); sending > 0)
    setup.memory.rank.items.push_back({"activations sent to experts", sending});
  // Each rank has operations, and so has its expert server if there is one.
  plan_metadata(device, (setup.step_modes.send_tokens > 0 ? 2 : 1) * config.ranks, setup.memory.host);
  const uint64_t on_host = host_expert_bytes(setup.placement, blob_bytes);
  if (on_host == 0) return;
  require_host_bytes(config, on_host);
  setup.memory.host.items.push_back({"experts in host memory", on_host});
  set_limits(config, device, setup.memory);
}

}  // namespace

DType compute_dtype(const EngineConfig& config, const WeightSource& source, const Device& device) {
  switch (config.compute) {
    case ComputeType::kF32: return DType::kF32;
    case ComputeType::kBf16: return DType::kBf16;
    case ComputeType::kAuto: break;
  }
  // Rounding f32 or f16 weights to bf16 would lose digits that somebody stored on purpose.
  return source.stored_dtype() == DType::kBf16 ? default_activation_dtype(device) : DType::kF32;
}

ForwardLimits forward_limits(const EngineConfig& config, int64_t max_request_tokens) {
  ForwardLimits limits;
  limits.tokens = std::max(step_tokens_max(config), max_request_tokens);
  limits.chunk_tokens = std::min(*config.chunk_tokens, limits.tokens);
  limits.head_rows = kHeadRows;
  limits.candidates = kCandidatesMax;
  return limits;
}

OpsSpec ops_spec(const EngineConfig& config, const ModelShape& shape, DType compute, const ForwardLimits& limits) {
  return {.activation = compute,
          .reference = config.reference_ops,
          .paced_flops_per_second = config.paced_flops_per_second,
          .limits = {.moe_tokens = limits.chunk_tokens,
                     .experts_per_token = shape.experts_per_token,
                     .experts = shape.experts,
                     .expert = {shape.hidden, shape.expert_intermediate},
                     .head_dim = shape.head_dim,
                     .linear_k = std::max({int64_t{shape.hidden}, int64_t{shape.query_heads} * shape.head_dim,
                                           int64_t{shape.dense_intermediate}}),
                     .head_rows = limits.head_rows,
                     .vocabulary = shape.vocabulary}};
}

void require_token_limits(const ForwardLimits& limits, int64_t max_request_tokens, const OpsTokenLimits& most) {
  if (max_request_tokens > most.sequence)
    fail(ErrorCode::kInvalidArgument,
         "the longest context has {} tokens; of this model the device takes at most {}: set max_context_tokens to no "
         "more",
         max_request_tokens, most.sequence);
  if (limits.tokens > most.step)
    fail(ErrorCode::kInvalidArgument,
         "a step may have {} tokens; the device takes at most {}: set max_step_tokens to no more", limits.tokens,
         most.step);
}

SchedulerConfig scheduler_config(const EngineConfig& config, const ModelShape& shape) {
  if (config.max_context_tokens > shape.max_positions)
    fail(ErrorCode::kInvalidArgument, "max_context_tokens is {}; this model was made for {}", config.max_context_tokens,
         shape.max_positions);
  SchedulerConfig scheduler;
  scheduler.max_request_tokens = config.max_context_tokens > 0 ? config.max_context_tokens : shape.max_positions;
  scheduler.load = token_load(config.target.tokens.value_or(*config.step_tokens));  // until ranks have been measured
  scheduler.step_tokens_max = step_tokens_max(config);
  scheduler.queue_max = config.max_pending_requests;
  return scheduler;
}

void plan_loading(const EngineConfig& config, const WeightSource& source, const Device& device, EngineSetup& setup) {
  setup.load_threads = config.threads > 0 ? config.threads : usable_cores();
  setup.load_lanes.threads = setup.load_threads;
  setup.load_lanes.blob_bytes = setup.placement.experts_on_host().empty() ? 0 : setup.blob_bytes;
  if (device.kind() == DeviceKind::kCpu || source.stored() == nullptr) return;
  setup.memory.host.items.push_back({"loading", LoadLanes::pinned_bytes(setup.load_lanes)});
  const size_t on_device = LoadLanes::device_bytes(setup.load_lanes);
  for (const MemoryItem& item : setup.memory.rank.items)
    if (item.consumer == "activations" && item.bytes < on_device) {
      setup.memory.rank.items.push_back({"loading, beyond activations", on_device - item.bytes});
      return;
    }
}

RankFailure rank_failure(const EngineSetup& setup) {
  if (setup.group) return RankFailure::kEndsAll;
  const bool coupled = setup.placement.placing() == Placing::kHybrid;
  const bool cuda = setup.ranks.front().device.kind == DeviceKind::kCuda;
  return coupled || cuda ? RankFailure::kEndsAll : RankFailure::kOthersGoOn;
}

DeviceSpec parse_device(const std::string& text) {
  if (text == "cpu") return {.kind = DeviceKind::kCpu};
  if (text == "cuda") return {.kind = DeviceKind::kCuda};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix))
    if (const auto index = to_whole_number<int32_t>(std::string_view(text).substr(kPrefix.size()), 0))
      return {.kind = DeviceKind::kCuda, .index = *index};
  fail(ErrorCode::kInvalidArgument, "device is {}; it must be 'cpu', 'cuda' or 'cuda:N'", quote_excerpt(text));
}

namespace {

void validate_random(const EngineConfig& config, std::vector<std::string>& problems) {
  const RandomConfig& random = config.random;
  const RandomConfig unset;
  if (!is_random(config)) {
    if (random.layers != unset.layers || random.seed != unset.seed || random.expert_skew != unset.expert_skew)
      problems.push_back(
          fmt::format("random.layers, random.seed and random.expert_skew are of random models alone; the model is {}",
                      quote_excerpt(config.model.string())));
    return;
  }
  if (random.layers < 0) problems.push_back(fmt::format("random.layers is {}; it must not be negative", random.layers));
  // With these a rank computes experts for tokens that it knows only by their activations.
  if (config.strategy == "dp+tp" || config.strategy == "tp+tp")
    problems.push_back(fmt::format(
        "a random model's experts are drawn by tokens, which a rank of strategy {} does not know", config.strategy));
}

}  // namespace

std::vector<std::string> validate(const EngineConfig& config) {
  std::vector<std::string> problems;
  const auto in_range = [&](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      problems.push_back(fmt::format("{} is {}; it must lie in [{}, {}]", name, value, low, high));
  };
  if (config.model.empty()) problems.emplace_back("model is empty; it must name a checkpoint folder");
  in_range("ranks", config.ranks, 1, kMaxRanks);
  in_range("threads", config.threads, 0, 1024);
  in_range("step_tokens", config.step_tokens.value_or(1), 1, kStepTokensMax);
  in_range("chunk_tokens", config.chunk_tokens.value_or(1), 1, int64_t{1} << 20);
  in_range("max_context_tokens", config.max_context_tokens, 0, int64_t{1} << 23);
  in_range("max_pending_requests", config.max_pending_requests, 1, 1 << 20);
  in_range("max_pending_bytes", static_cast<int64_t>(std::min<uint64_t>(config.max_pending_bytes, INT64_MAX)), 1,
           int64_t{1} << 40);
  // Slower ones would take days for a step.
  if (const double pace = config.paced_flops_per_second; !(pace == 0 || (pace >= 1e6 && pace <= 1e18)))
    problems.push_back(fmt::format("paced_flops_per_second is {}; it must be 0 or lie in [1e6, 1e18]", pace));
  if (config.paced_flops_per_second > 0 && config.device != "cpu")
    problems.push_back(fmt::format("only virtual ranks on the CPU can be paced; the device is '{}'", config.device));
  if (config.strategy != "asyncep" && config.experts.mode != ExpertMode::kAuto)
    problems.push_back(
        fmt::format("strategy {} decides itself where experts live; experts.mode must be auto", config.strategy));
  if (config.strategy != "asyncep" && config.experts.below_threshold != BelowThreshold::kAuto)
    problems.push_back(fmt::format(
        "experts.below_threshold is of strategy asyncep alone; with strategy {} it must be auto", config.strategy));
  if (config.strategy != "asyncep" && config.trace)
    problems.push_back(fmt::format("trace is of strategy asyncep alone; the strategy is {}", config.strategy));
  validate_random(config, problems);
  validate_experts(config, problems);
  validate_target(config, problems);
  return problems;
}

namespace {

// With both sizes set.
EngineSetup decide_sized(const EngineConfig& config, const WeightSource& source) {
  const ModelShape& shape = source.shape();
  DeviceSpec device_spec = parse_device(config.device);
  // Each rank has its share of the threads, and at least one.
  device_spec.threads = std::max(1, (config.threads > 0 ? config.threads : usable_cores()) / config.ranks);
  const std::unique_ptr<Device> device = make_device(device_spec);

  EngineSetup setup;
  setup.scheduler = scheduler_config(config, shape);
  const ForwardLimits limits = forward_limits(config, setup.scheduler.max_request_tokens);
  require_token_limits(limits, setup.scheduler.max_request_tokens,
                       ops_token_limits(*device, shape.query_heads / shape.kv_heads));
  const OpsSpec ops = ops_spec(config, shape, compute_dtype(config, source, *device), limits);

  setup.memory = fixed_memory(config, source, *device, ops, limits);
  setup.memory.host.items = host_items(config, setup.scheduler.max_request_tokens);
  setup.pending_bytes_max = config.max_pending_bytes;
  set_limits(config, *device, setup.memory);
  plan_experts(config, source, *device, ops, setup);
  plan_loading(config, source, *device, setup);
  const size_t block_bytes = KvPool::block_bytes(shape, *ops.activation, kBlockTokens);
  const int32_t kv_blocks = plan_kv_blocks(config, block_bytes, setup.memory.rank);

  for (int32_t rank = 0; rank < config.ranks; ++rank)
    setup.ranks.push_back({.device = rank_device(config, device_spec, rank),
                           .ops = ops,
                           .limits = limits,
                           .kv_blocks = kv_blocks,
                           .window = config.experts.window});
  setup.load = load_spec(config, setup.scheduler.max_request_tokens);
  setup.known = known_calibration(config, setup.placement);
  if (setup.known) setup.ranks.front().measured = setup.known->measured;
  setup.ranks.front().measure = true;  // ranks are alike
  setup.policy = config.policy;
  setup.streaming = {
      .slots = config.experts.slots, .window = config.experts.window, .slice_bytes = config.experts.slice_bytes};
  setup.trace = config.trace;
  setup.scheduler.pool_blocks.assign(static_cast<size_t>(config.ranks), kv_blocks);
  setup.model_revision = model_revision(config);
  setup.hiding_tokens = hiding_step_tokens(config, shape, setup);
  return setup;
}

using Decide = std::function<EngineSetup(const EngineConfig&)>;

// Empty if it does not fit: some limits are found out while experts are placed.
std::optional<EngineSetup> decide_if_fits(const Decide& decide, const EngineConfig& config) {
  try {
    EngineSetup setup = decide(config);
    if (fits(setup.memory)) return setup;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
  }
  return std::nullopt;
}

// `setup`, decided for `sized`, or one with larger steps if those would hide transfers and fit. What somebody asked to
// be kept of experts, or of keys and values, no plan makes less; and no larger step sends to the host what ranks hold
// together.
EngineSetup with_hiding_steps(EngineSetup setup, const EngineConfig& sized, const Decide& decide) {
  const int64_t wanted = setup.hiding_tokens;
  const int64_t least = step_tokens_max(sized);
  if (wanted <= least || !fits(setup.memory)) return setup;
  for (int64_t tokens = wanted; tokens > least; tokens /= 2) {
    EngineConfig config = sized;
    config.max_step_tokens = tokens;
    std::optional<EngineSetup> larger = decide_if_fits(decide, config);
    if (!larger || larger->placement.placing() != setup.placement.placing()) continue;
    larger->memory.note =
        tokens == wanted
            ? fmt::format("steps of up to {} tokens, so that compute can hide the transfer of experts", tokens)
            : fmt::format("steps of up to {} tokens, as many as fit; {} would hide the transfer of experts", tokens,
                          wanted);
    larger->hiding_tokens = wanted;
    return *std::move(larger);
  }
  setup.memory.note = fmt::format(
      "steps of up to {} tokens, since more do not fit; {} would hide the transfer of experts", least, wanted);
  return setup;
}

}  // namespace

EngineSetup decide_sizes(const EngineConfig& config, const std::function<EngineSetup(const EngineConfig&)>& decide) {
  const bool cuda = parse_device(config.device).kind == DeviceKind::kCuda;
  for (StepSizes sizes = cuda ? kCudaSizes : kCpuSizes;; sizes = {sizes.step_tokens / 2, sizes.chunk_tokens / 2}) {
    EngineConfig sized = config;
    if (!sized.step_tokens)
      sized.step_tokens =
          config.max_step_tokens > 0 ? std::min(sizes.step_tokens, config.max_step_tokens) : sizes.step_tokens;
    if (!sized.chunk_tokens) sized.chunk_tokens = sizes.chunk_tokens;
    EngineSetup setup = decide(sized);
    const bool given = config.step_tokens && config.chunk_tokens;
    if (given || sizes.step_tokens <= kCpuSizes.step_tokens || fits(setup.memory))
      return with_hiding_steps(std::move(setup), sized, decide);
  }
}

EngineSetup decide_setup(const EngineConfig& config, const WeightSource& source) {
  return decide_sizes(config, [&](const EngineConfig& sized) { return decide_sized(sized, source); });
}

EngineSetup make_setup(const EngineConfig& config, const WeightSource& source) {
  EngineSetup setup = decide_setup(config, source);
  require_fits(setup.memory,
               fmt::format("A shorter longest context (max_context_tokens, now {}) takes less for activations, "
                           "a smaller kv_cache_bytes less for what is kept, fewer max_pending_requests less for them",
                           setup.scheduler.max_request_tokens));
  return setup;
}

}  // namespace zp
