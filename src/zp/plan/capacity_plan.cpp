// Shares memory out, and derives speed from what is left to move.
#include "zp/plan/capacity_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "zp/base/human.h"
#include "zp/shape/flops.h"

namespace zp {
namespace {

constexpr int64_t kActivationBytes = 2;  // bf16
constexpr uint64_t kRuntimeBytes = uint64_t{1} << 30;
constexpr int64_t kDefaultKvTokens = 65536;
constexpr uint64_t kDefaultKvBytesMax = uint64_t{16} << 30;

// Of a step of so many tokens: the residual in f32, queries, keys and values before and after rotation and the result
// of attention for all tokens; the rest for a chunk.
uint64_t activation_bytes(const ModelShape& shape, int64_t step_tokens, int64_t chunk_tokens) {
  const PlanningFeatures& p = shape.planning;
  const int64_t q = shape.query_heads;
  const int64_t key_dim = shape.head_dim + p.latent_rope_dim;
  const int64_t value_dim = p.latent() ? p.latent_value_dim : shape.head_dim;
  const int64_t qkv = q * key_dim + shape.kv_heads * (key_dim + value_dim);
  const int64_t token = 4 * int64_t{shape.hidden} + kActivationBytes * (2 * qkv + q * value_dim);
  const int64_t chosen = std::max(shape.experts_per_token, 1);
  const int64_t inner =
      std::max<int64_t>(3 * chosen * shape.expert_intermediate, 3 * int64_t{shape.dense_intermediate});
  const int64_t chunk = kActivationBytes * (3 * int64_t{shape.hidden} + inner + chosen * shape.hidden);
  return static_cast<uint64_t>(token * step_tokens + chunk * std::min(chunk_tokens, step_tokens));
}

uint64_t total(const std::vector<PlanItem>& items) {
  uint64_t sum = 0;
  for (const PlanItem& item : items) sum += item.bytes;
  return sum;
}

OperationRates rates_of(const PlanSpec& spec) {
  OperationRates rates = spec.hardware.achieved_bf16;
  if (spec.expert_type == ExpertType::kFp8) rates.expert = spec.hardware.achieved_fp8_expert;
  return rates;
}

/// Makes one plan: memory for steps of a size, the threshold that follows, and again with the step that it asks for.
class Planning final {
 public:
  /// Steps are filled to no less than `step_tokens`.
  Planning(const PlanSpec& spec, int64_t step_tokens)
      : spec_(spec), cost_(spec.shape), efficient_step_tokens_(step_tokens) {
    plan_.rank_limit = spec.hardware.memory_bytes;
    plan_.expert_element_bytes = spec.expert_type == ExpertType::kFp8 ? 1 : 2;
    plan_.rates = rates_of(spec);
    plan_.step_tokens = step_tokens;
  }

  CapacityPlan run() {
    // A larger step needs more memory, which leaves less for experts, which makes the step larger: a few rounds settle
    // it.
    int64_t step_tokens = efficient_step_tokens_;
    for (int round = 0; round < kRounds; ++round) {
      share_memory(step_tokens + spec_.context_tokens);
      if (!plan_.problem.empty()) break;
      saturate();
      const auto wanted = static_cast<int64_t>(plan_.saturation.target.tokens) + 1;
      if (wanted <= step_tokens) break;
      step_tokens = wanted;
    }
    if (plan_.problem.empty()) predict();
    compare(step_tokens);
    return std::move(plan_);
  }

 private:
  static constexpr int kRounds = 8;

  // What a rank has of memory goes, in this order, to what is always there, kept keys and values, slots, experts.
  void share_memory(int64_t step_tokens) {
    const ModelShape& shape = spec_.shape;
    const ParameterCounts counts = parameter_counts(shape);
    plan_.rank = {{"runtime", kRuntimeBytes},
                  {kReplicatedItem, static_cast<uint64_t>((counts.total() - counts.experts) * kActivationBytes)},
                  {"activations", activation_bytes(shape, step_tokens, spec_.chunk_tokens)}};
    plan_.host.clear();
    plan_.problem.clear();
    const int64_t bytes = expert_bytes(shape, plan_.expert_element_bytes);
    const auto layer = static_cast<uint64_t>(bytes * shape.experts);
    const uint64_t fixed = total(plan_.rank);
    const uint64_t kv = kv_bytes(fixed);
    if (kv > 0) plan_.rank.push_back({kKeptItem, kv});
    const auto ranks = static_cast<uint64_t>(spec_.gpus);
    const uint64_t all_experts = static_cast<uint64_t>(counts.experts * plan_.expert_element_bytes);
    const bool on_host = spec_.experts == ExpertSpreading::kHost;
    const bool alone = ranks == 1 || on_host;  // nothing comes from other devices
    // Slots are for what a rank must bring in; a window, for its share of what the host has. Neither is needed if every
    // rank holds everything.
    const uint64_t remote = alone ? layer : layer - layer / ranks;
    const uint64_t slots = static_cast<uint64_t>(spec_.slots) * remote;
    const uint64_t window = alone ? 0 : static_cast<uint64_t>(spec_.window) * (layer / ranks);
    const uint64_t room = plan_.rank_limit > total(plan_.rank) ? plan_.rank_limit - total(plan_.rank) : 0;
    const bool resident = all_on_each_device(all_experts <= room);
    uint64_t moving = resident ? 0 : slots;
    const uint64_t gathered = layer + (all_experts - layer + ranks - 1) / ranks;
    const bool hybrid = !resident && !alone && (room < slots || gathered > room - slots);
    if (resident && all_experts > room) return lack_memory(all_experts, "all of them");
    if (hybrid && spec_.experts == ExpertSpreading::kGathered)
      return lack_memory(slots + gathered, "slots, the first layer and a share of the others");
    if (hybrid) moving += window;
    if (!resident && moving + layer > room) return lack_memory(moving + layer, "slots and the first layer");
    if (!alone && !resident && spec_.hardware.peer_bandwidth <= 0) {
      plan_.problem = "the experts do not fit on one device, and the devices have no link to each other";
      return;
    }
    plan_.spread = spread_experts(shape, {.ranks = alone ? 1 : spec_.gpus,
                                          .expert_bytes = bytes,
                                          .rank_bytes = on_host ? layer : room - moving,
                                          .resident_bytes = resident ? room : 0});
    plan_.rank.push_back({"experts", plan_.spread.rank_bytes()});
    if (moving > 0) plan_.rank.push_back({"expert slots", slots});
    if (hybrid) plan_.rank.push_back({"host window", window});
    require_host_memory();
  }

  // `fits`: every device has room for that.
  [[nodiscard]] bool all_on_each_device(bool fits) const {
    if (spec_.shape.moe_layers() == 1) return true;  // every device holds the first MoE layer
    if (!spec_.experts) return fits;
    switch (*spec_.experts) {
      case ExpertSpreading::kResident: return true;
      case ExpertSpreading::kGathered: return spec_.gpus == 1;
      case ExpertSpreading::kHost: return false;
      case ExpertSpreading::kHybrid: return spec_.gpus == 1 && fits;
    }
    return fits;
  }

  void lack_memory(uint64_t needed, std::string_view what) {
    plan_.problem =
        fmt::format("a device has {}; besides {} for everything else, experts need at least {}: {}",
                    human_bytes(plan_.rank_limit), human_bytes(total(plan_.rank)), human_bytes(needed), what);
  }

  [[nodiscard]] uint64_t kv_bytes(uint64_t fixed) const {
    if (spec_.kv_bytes) return *spec_.kv_bytes;
    const uint64_t left = plan_.rank_limit > fixed ? plan_.rank_limit - fixed : 0;
    const auto wanted = static_cast<uint64_t>(kDefaultKvTokens * kv_bytes_per_token(spec_.shape, kActivationBytes));
    return std::min({wanted, kDefaultKvBytesMax, left / 2});
  }

  void require_host_memory() {
    if (plan_.spread.host_experts == 0) return;
    plan_.host.push_back({"experts, pinned", plan_.spread.host_bytes()});
    if (spec_.host_bytes && plan_.spread.host_bytes() > *spec_.host_bytes)
      plan_.problem = fmt::format("{} of experts fit on no device; host memory for them is {}",
                                  human_bytes(plan_.spread.host_bytes()), human_bytes(*spec_.host_bytes));
  }

  void saturate() {
    const LinkRates links{.peer = spec_.hardware.peer_bandwidth, .host = spec_.hardware.host_bandwidth};
    plan_.transfer = layer_transfer(plan_.spread, links, spec_.window);
    plan_.host_layer_bytes = plan_.transfer.host_seconds * links.host;
    plan_.traffic.moved_bytes = plan_.transfer.peer_seconds * links.peer;
    plan_.traffic.table_bytes = plan_.traffic.moved_bytes;
    const double peak = spec_.expert_type == ExpertType::kFp8 ? spec_.hardware.peak_fp8 : spec_.hardware.peak_bf16;
    plan_.saturation = saturation(cost_, {.transfer_seconds = plan_.transfer.seconds(),
                                          .gamma = spec_.gamma,
                                          .rates = plan_.rates,
                                          .peak_rate = peak,
                                          .rate = spec_.rate,
                                          .context_tokens = spec_.context_tokens,
                                          .efficient_step_tokens = efficient_step_tokens_});
  }

  void predict() {
    const RequestCost request = cost_.cost({.prefix = 0, .suffix = spec_.context_tokens});
    const double requests = plan_.saturation.target.flops / request.total();
    PlanPrediction& p = plan_.prediction;
    const double attention = requests * request.attention / plan_.rates.attention;
    const double dense = requests * request.dense / plan_.rates.dense;
    const double expert = requests * request.expert / plan_.rates.expert;
    p.layer_seconds = attention + dense + expert;
    const double late = std::max(0.0, plan_.transfer.seconds() - p.layer_seconds);
    p.exposed_seconds = late * plan_.spread.streamed_layers();
    p.step_seconds = p.layer_seconds * spec_.shape.layers + p.exposed_seconds;
    p.tokens_per_second = plan_.saturation.target.tokens / p.step_seconds * spec_.gpus;
    const double whole = std::max(p.layer_seconds, plan_.transfer.seconds());
    const auto consider = [&](std::string_view name, double seconds) {
      if (seconds / whole <= p.bound_share) return;
      p.bound = name;
      p.bound_share = seconds / whole;
    };
    if (late > 0) {
      consider("peer link", plan_.transfer.peer_seconds);
      consider("host link", plan_.transfer.host_seconds);
    } else {
      consider("expert products", expert);
      consider("dense products", dense);
      consider("attention", attention);
    }
  }

  // The others get steps of the same size, so that only the strategy differs.
  void compare(int64_t step_tokens) {
    const RequestCost request = cost_.cost({.prefix = 0, .suffix = spec_.context_tokens});
    const double requests = static_cast<double>(step_tokens) / static_cast<double>(spec_.context_tokens);
    uint64_t other = 0;
    for (const PlanItem& item : plan_.rank)
      if (item.consumer == "runtime" || item.consumer == "activations" || item.consumer == kKeptItem)
        other += item.bytes;
    plan_.others = compare_strategies(
        spec_.shape, {.traffic = {.ranks = spec_.gpus, .rank_tokens = step_tokens, .element_bytes = kActivationBytes},
                      .expert_element_bytes = plan_.expert_element_bytes,
                      .limit_bytes = plan_.rank_limit,
                      .other_bytes = other,
                      .layer_seconds = requests * layer_seconds(request, plan_.rates),
                      .peer_bandwidth = spec_.hardware.peer_bandwidth});
  }

  const PlanSpec& spec_;
  CostModel cost_;
  int64_t efficient_step_tokens_;
  CapacityPlan plan_;
};

}  // namespace

std::string_view to_string(ExpertType type) noexcept { return type == ExpertType::kFp8 ? "fp8" : "bf16"; }

uint64_t CapacityPlan::rank_bytes() const noexcept { return total(rank); }
uint64_t CapacityPlan::host_bytes() const noexcept { return total(host); }

std::vector<std::string> validate(const PlanSpec& spec) {
  std::vector<std::string> problems = validate(spec.shape);
  for (std::string& problem : validate(spec.hardware)) problems.push_back(std::move(problem));
  const auto in_range = [&](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      problems.push_back(fmt::format("{} is {}; it must lie in [{}, {}]", name, value, low, high));
  };
  in_range("gpus", spec.gpus, 1, 1024);
  in_range("context", spec.context_tokens, 1, int64_t{1} << 23);
  in_range("step_tokens", spec.step_tokens.value_or(1), 1, kPlannedStepTokensMax);
  in_range("chunk_tokens", spec.chunk_tokens, 1, int64_t{1} << 23);
  in_range("slots", spec.slots, 2, 64);
  in_range("window", spec.window, 1, 1024);
  if (!(spec.gamma >= 1 && spec.gamma <= kGammaMax))
    problems.push_back(fmt::format("gamma is {}; it must lie in [1, {}]", spec.gamma, kGammaMax));
  if (spec.shape.moe_layers() == 0) problems.emplace_back("the model has no experts, so there is nothing to stream");
  if (spec.expert_type == ExpertType::kFp8 && spec.hardware.peak_fp8 <= 0)
    problems.push_back(fmt::format("{} has no fp8", spec.hardware.name));
  return problems;
}

void use_measured(const MeasuredRank& measured, PlanSpec& spec) {
  HardwareProfile& hardware = spec.hardware;
  const OperationRates& rates = measured.rates;
  hardware.achieved_bf16 = rates;
  hardware.peak_bf16 = std::max({hardware.peak_bf16, rates.attention, rates.dense, rates.expert});
  if (hardware.peak_fp8 > 0) {
    hardware.achieved_fp8_expert = rates.expert;
    hardware.peak_fp8 = std::max(hardware.peak_fp8, rates.expert);
  }
  if (measured.links.peer > 0) hardware.peer_bandwidth = measured.links.peer;
  if (measured.links.host > 0) hardware.host_bandwidth = measured.links.host;
  spec.step_seconds = measured.step_seconds;
}

CapacityPlan make_capacity_plan(const PlanSpec& spec) {
  const int64_t wanted = spec.step_tokens.value_or(kGpuStepTokens);
  CapacityPlan plan = Planning(spec, wanted).run();
  if (spec.step_tokens) return plan;
  for (int64_t tokens = wanted / 2; !plan.problem.empty() && tokens >= kCpuStepTokens; tokens /= 2) {
    CapacityPlan smaller = Planning(spec, tokens).run();
    if (smaller.problem.empty()) return smaller;
  }
  return plan;
}

}  // namespace zp
