// Decides an engine's sizes.
#include "zp/engine/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "zp/base/error.h"
#include "zp/cache/block_hash.h"
#include "zp/engine/weight_bytes.h"

namespace zp {
namespace {

constexpr int64_t kHeadRows = 64;
// Unless told otherwise, keys and values get room for this many tokens, within these bytes and half of what is left.
constexpr int64_t kDefaultKvTokens = 65536;
constexpr uint64_t kDefaultKvBytesMin = uint64_t{256} << 20;
constexpr uint64_t kDefaultKvBytesMax = uint64_t{16} << 30;

// Everything but the keys and values.
MemoryPlan fixed_plan(const ModelShape& shape, const Device& device, const OpsSpec& ops, const ForwardLimits& limits) {
  const uint64_t blob_bytes =
      shape.moe_layers() == 0
          ? 0
          : packed_expert_bytes(device, ops, {.hidden = shape.hidden, .intermediate = shape.expert_intermediate});
  MemoryPlan plan;
  plan.items = {
      {"replicated weights", replicated_weight_bytes(shape, device, ops)},
      {"experts", blob_bytes * static_cast<uint64_t>(shape.experts) * static_cast<uint64_t>(shape.moe_layers())},
      {"activations", Forward::activation_bytes(shape, *ops.activation, limits)},
      {"scratch of operations", ops_scratch_bytes(device, ops)}};
  return plan;
}

}  // namespace

DType compute_dtype(const EngineConfig& config, const ModelFiles& files, const Device& device) {
  switch (config.compute) {
    case ComputeType::kF32: return DType::kF32;
    case ComputeType::kBf16: return DType::kBf16;
    case ComputeType::kAuto: break;
  }
  // Rounding f32 or f16 weights to bf16 would lose digits that somebody stored on purpose.
  return files.stored_dtype() == DType::kBf16 ? default_activation_dtype(device) : DType::kF32;
}

ForwardLimits forward_limits(const EngineConfig& config, int64_t max_request_tokens) {
  ForwardLimits limits;
  limits.tokens = std::max(2 * config.step_tokens, max_request_tokens);
  limits.chunk_tokens = std::min(config.chunk_tokens, limits.tokens);
  limits.head_rows = kHeadRows;
  limits.candidates = kCandidatesMax;
  return limits;
}

OpsSpec ops_spec(const EngineConfig& config, const ModelShape& shape, DType compute, const ForwardLimits& limits) {
  return {.activation = compute,
          .reference = config.reference_ops,
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

uint64_t kv_bytes(const EngineConfig& config, const MemoryPlan& plan, size_t block_bytes) {
  if (config.kv_cache_bytes) return *config.kv_cache_bytes;
  const uint64_t used = plan.total_bytes();
  const uint64_t left = plan.limit_bytes > used ? plan.limit_bytes - used : 0;
  const uint64_t wanted = static_cast<uint64_t>(kDefaultKvTokens / kBlockTokens) * block_bytes;
  return std::min(left / 2, std::clamp(wanted, kDefaultKvBytesMin, kDefaultKvBytesMax));
}

SchedulerConfig scheduler_config(const EngineConfig& config, const ModelShape& shape) {
  if (config.max_context_tokens > shape.max_positions)
    fail(ErrorCode::kInvalidArgument, "max_context_tokens is {}; this model was made for {}", config.max_context_tokens,
         shape.max_positions);
  SchedulerConfig scheduler;
  scheduler.max_request_tokens = config.max_context_tokens > 0 ? config.max_context_tokens : shape.max_positions;
  scheduler.load = token_load(config.step_tokens);
  scheduler.step_tokens_max = 2 * config.step_tokens;
  scheduler.queue_max = config.max_pending_requests;
  return scheduler;
}

std::string model_revision(const EngineConfig& config) {
  return std::filesystem::absolute(config.model).lexically_normal().string();
}

DeviceSpec parse_device(const std::string& text) {
  if (text == "cpu") return {.kind = DeviceKind::kCpu};
  if (text == "cuda") return {.kind = DeviceKind::kCuda};
  constexpr std::string_view kPrefix = "cuda:";
  int32_t index = 0;
  if (text.starts_with(kPrefix)) {
    const char* end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (error == std::errc() && parsed == end && index >= 0) return {.kind = DeviceKind::kCuda, .index = index};
  }
  fail(ErrorCode::kInvalidArgument, "device is '{}'; it must be 'cpu', 'cuda' or 'cuda:N'", text);
}

std::vector<std::string> validate(const EngineConfig& config) {
  std::vector<std::string> problems;
  const auto in_range = [&](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      problems.push_back(fmt::format("{} is {}; it must lie in [{}, {}]", name, value, low, high));
  };
  if (config.model.empty()) problems.emplace_back("model is empty; it must name a checkpoint folder");
  in_range("threads", config.threads, 0, 1024);
  in_range("ranks", config.ranks, 1, 64);
  if (config.strategy == "asyncep" && config.ranks > 1)
    problems.push_back(fmt::format("ranks is {}; with strategy asyncep it must be 1 for now", config.ranks));
  in_range("step_tokens", config.step_tokens, 1, int64_t{1} << 20);
  in_range("chunk_tokens", config.chunk_tokens, 1, int64_t{1} << 20);
  in_range("max_context_tokens", config.max_context_tokens, 0, int64_t{1} << 23);
  in_range("max_pending_requests", config.max_pending_requests, 1, 1 << 20);
  return problems;
}

EngineSetup decide_setup(const EngineConfig& config, const ModelFiles& files) {
  const ModelShape& shape = files.shape();
  DeviceSpec device_spec = parse_device(config.device);
  device_spec.threads = config.threads;
  const std::unique_ptr<Device> device = make_device(device_spec);

  EngineSetup setup;
  setup.scheduler = scheduler_config(config, shape);
  const ForwardLimits limits = forward_limits(config, setup.scheduler.max_request_tokens);
  const OpsSpec ops = ops_spec(config, shape, compute_dtype(config, files, *device), limits);

  setup.plan = fixed_plan(shape, *device, ops, limits);
  setup.plan.limit_bytes = config.memory_limit_bytes.value_or(device->memory_info().free_bytes);
  setup.plan.limit_source = config.memory_limit_bytes ? "the given memory limit" : "free on " + device->description();
  const size_t block_bytes = KvPool::block_bytes(shape, *ops.activation, kBlockTokens);
  const auto kv_blocks =
      static_cast<int32_t>(std::min<uint64_t>(kv_bytes(config, setup.plan, block_bytes) / block_bytes, INT32_MAX / 2));
  setup.plan.items.push_back({"kept keys and values", static_cast<uint64_t>(kv_blocks) * block_bytes});

  setup.ranks.push_back({.device = device_spec, .ops = ops, .limits = limits, .kv_blocks = kv_blocks});
  setup.scheduler.pool_blocks = {kv_blocks};
  setup.model_revision = model_revision(config);
  return setup;
}

EngineSetup make_setup(const EngineConfig& config, const ModelFiles& files) {
  EngineSetup setup = decide_setup(config, files);
  require_fits(setup.plan,
               fmt::format("A shorter longest context (max_context_tokens, now {}) takes less for activations, "
                           "a smaller kv_cache_bytes less for what is kept",
                           setup.scheduler.max_request_tokens));
  return setup;
}

}  // namespace zp
