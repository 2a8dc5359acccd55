// The public interface of ZeRO-Prefill: prefill as a service. A request is a context and a few candidate tokens; its
// answer, from one forward pass, is each candidate's logit and the log-sum-exp over the whole vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "zp/base/error.h"

namespace zp {

/// The type that activations, keys and values are computed and kept in.
enum class ComputeType : uint8_t {
  kAuto,  ///< bf16 for a bf16 checkpoint where the device multiplies bf16 fast; f32 otherwise
  kF32,
  kBf16,
};

/// Where the experts of a mixture-of-experts model live. Whatever the mode, the first layer of experts is complete on
/// every rank, and answers have the same bits.
enum class ExpertMode : uint8_t {
  kAuto,      ///< kResident if that fits into rank_bytes, else kHybrid
  kResident,  ///< every expert on every rank: nothing moves
  kGathered,  ///< each expert on one rank; the others pull it while an earlier layer computes
  kHost,      ///< each expert in host memory; every rank streams it from there
  kHybrid,    ///< as many as rank_bytes allows on one rank each, the rest in host memory; ranks share the streaming
};

/// How a step gets its tokens and the experts of other ranks or of the host together. All give the same bits; they
/// differ in steps too small to hide the transfer of every expert behind what is computed (docs/asyncep.md).
enum class BelowThreshold : uint8_t {
  kAuto,             ///< step by step, by measured costs
  kGatherAll,        ///< every expert comes, ahead of its layer; the host never waits
  kFetchRouted,      ///< the host waits for each layer's routing; then only the experts come that are needed
  kSendActivations,  ///< likewise; then tokens go to the ranks that hold their experts ("gathered" experts only)
};

/// What a link between virtual ranks can do; zero means no limit of its own.
struct LinkConfig {
  uint64_t bytes_per_second = 0;
  int64_t latency_us = 0;
};

struct ExpertConfig {
  ExpertMode mode = ExpertMode::kAuto;
  int32_t slots = 2;                         ///< layers whose remote experts a rank has room for
  int32_t window = 4;                        ///< hybrid: layers that a rank may be ahead of another, in host experts
  uint64_t slice_bytes = uint64_t{1} << 20;  ///< the most that one copy moves
  /// A mode that depends on routing is for steps of at most chunk_tokens; larger ones gather all.
  BelowThreshold below_threshold = BelowThreshold::kAuto;
  std::optional<uint64_t> rank_bytes;  ///< of a rank's memory for the experts it keeps; unset: what is left
  std::optional<uint64_t> host_bytes;  ///< of host memory for experts; unset: what is available
  LinkConfig peer_link;                ///< of each rank, from the others; CPU only
  LinkConfig host_link;                ///< of each rank, from host memory; CPU only
};

/// When a step is full (docs/notes/scheduling.md). Unless `tokens` or `milliseconds` fixes it, a step is filled until
/// the predicted time of a layer reaches max(T, that of EngineConfig::step_tokens tokens), with T = gamma x t_EP, the
/// time in which a layer's experts arrive.
struct TargetConfig {
  double gamma = 1.2;                  ///< to begin with, in [1, 2]
  bool adapt = true;                   ///< gamma and rates follow what steps take; false: they stay as measured
  std::optional<int64_t> tokens;       ///< a step is filled until it computes this many
  std::optional<double> milliseconds;  ///< a step is filled to this predicted time of a layer
  std::filesystem::path calibration;   ///< rates and links from this file (calibration_json()) instead of measuring
};

/// One line of a memory plan.
struct MemoryItem {
  std::string consumer;
  uint64_t bytes = 0;
};

/// What will be allocated in one memory, by consumer, and what it must fit in.
struct MemoryPlan {
  std::vector<MemoryItem> items;
  uint64_t limit_bytes = 0;
  std::string limit_source;  ///< "free on cpu:0 (2 threads)", "the given memory limit"

  [[nodiscard]] uint64_t total_bytes() const noexcept;
};

/// What an engine will allocate, decided before it does. On the CPU both memories are the host's: what is planned for
/// the host as a whole is then taken from the limit of the ranks.
struct EngineMemory {
  int32_t ranks = 1;
  MemoryPlan rank;     ///< of each rank: of the one that takes most
  MemoryPlan host;     ///< of host memory, for the engine as a whole
  std::string note{};  ///< how large steps are and why, where the transfer of experts decides; else empty

  [[nodiscard]] uint64_t total_bytes() const noexcept;
  /// A table for people, without a line end at its end.
  [[nodiscard]] std::string to_text() const;
};

/// What stands before the name of a model whose weights are drawn.
inline constexpr std::string_view kRandomPrefix = "random:";

/// Of a model "random:NAME" alone (docs/notes/random_models.md).
struct RandomConfig {
  int32_t layers = 0;      ///< only the first so many; 0: all
  uint64_t seed = 1;       ///< weights and routes are drawn from it
  double expert_skew = 1;  ///< how many times more tokens a layer's commonest expert gets than its rarest
};

/// How to build an engine. Zero and unset mean: chosen by the engine, which says what it chose in EngineStats.
struct EngineConfig {
  /// A Hugging Face checkpoint folder; or "random:NAME" for weights that are drawn, in the shape of a known model
  /// ("random:Qwen3-30B-A3B") or of a folder's config.json.
  std::filesystem::path model;
  std::filesystem::path tokenizer;  ///< a folder with a tokenizer.json; empty: the model's own, if it has one
  RandomConfig random;
  std::string device = "cpu";  ///< "cpu", "cuda" or "cuda:N"
  /// How ranks share the work: "asyncep", or a synchronous baseline (docs/notes/baselines.md), in which all ranks make
  /// every step together: "dp+ep", "dp+tp", "tp+ep", "tp+tp", "pp+pp" (attention + experts).
  std::string strategy = "asyncep";
  int32_t ranks = 1;                  ///< devices, or virtual ranks on the CPU
  int32_t threads = 0;                ///< CPU threads that compute, shared out to the ranks; 0: all cores
  ExpertConfig experts;               ///< of "asyncep"; its peer link holds for the baselines' collectives too
  double paced_flops_per_second = 0;  ///< CPU: a rank computes no faster than this, to model a device; 0: as it can
  bool trace = false;                 ///< note what each rank did when, for trace_json()
  ComputeType compute = ComputeType::kAuto;
  bool reference_ops = false;  ///< the slow specification instead of the fast operations, to look for errors
  std::string policy = "prefix-saturation";  ///< which rank a request goes to: a name of `simulate --policy`
  TargetConfig target;                       ///< when a step is full
  /// From step_tokens on steps are efficient: the target is no less. Everything but attention works on chunk_tokens at
  /// a time. Unset: 4096 and 2048 on the CPU; 32768 and 16384 on a GPU, or as much of this as its memory allows.
  std::optional<int64_t> step_tokens;
  std::optional<int64_t> chunk_tokens;
  /// No step computes more, unless one request has more. 0: 2 x step_tokens; where experts are streamed, up to 262144
  /// if hiding the transfer takes that (EngineMemory::note), as far as memory allows.
  int64_t max_step_tokens = 0;
  int64_t max_context_tokens = 0;          ///< longest context accepted; 0: what the model was made for
  std::optional<uint64_t> kv_cache_bytes;  ///< keys and values kept for reuse; 0: none outlive their step
  std::optional<uint64_t>
      memory_limit_bytes;               ///< refuse to start beyond this; unset: what the host or container allows
  int32_t max_pending_requests = 4096;  ///< submit() blocks while this many are unanswered,
  uint64_t max_pending_bytes = uint64_t{256} << 20;  ///< or while they take this much memory
  /// Told the plan once, when it is known to fit and before anything is allocated; on the thread that calls create().
  std::function<void(const EngineMemory&)> on_memory_plan;
};

/// All contradictions found in a configuration ("step_tokens is 0; it must be at least 1"); empty if none.
[[nodiscard]] std::vector<std::string> validate(const EngineConfig& config);

/// Text (UTF-8) or token ids.
using Context = std::variant<std::string, std::vector<int32_t>>;
/// Text that is exactly one token after the context, or a token id.
using Candidate = std::variant<std::string, int32_t>;

/// The largest Request::deadline_ms: 366 days.
inline constexpr int64_t kDeadlineMsMax = int64_t{366} * 86'400'000;

struct Request {
  Context context;
  std::vector<Candidate> candidates;  ///< 1 to 65,536, distinct tokens
  std::string cache_salt;             ///< only requests of the same salt share cached prefixes
  int32_t priority = 0;               ///< higher goes first
  /// From submit(), in [0, kDeadlineMsMax]: when less than a second of it is left, the request goes before others of
  /// its priority, in a step that takes nothing else along. A deadline is a wish: a request that misses it is answered
  /// late.
  std::optional<int64_t> deadline_ms{};
};

/// What one prefill found.
struct Answer {
  std::vector<float> logits;  ///< of the candidates, in their order
  double log_sum_exp = 0;     ///< log of the sum of exp(logit) over the vocabulary: logit - this is a log-probability
  size_t best = 0;            ///< the candidate with the largest logit; the first of equals
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  ///< of these, reused instead of computed
};

/// Why a request has no answer.
struct Failure {
  ErrorCode code = ErrorCode::kDevice;
  std::string message;
};

using Outcome = std::variant<Answer, Failure>;
/// Called exactly once for each request that submit() took, on the engine's thread. Must return soon, must not throw,
/// and must call neither submit() nor drain() (which may wait for this very thread); cancel() it may.
using Callback = std::function<void(uint64_t request, Outcome outcome)>;

/// What the collectives of a synchronous group moved and took.
struct GroupStats {
  std::string strategy;
  int32_t ranks = 0;
  int32_t layers = 0;
  struct Device {
    uint64_t sent_bytes = 0;      ///< activations, as rings move them
    uint64_t received_bytes = 0;  ///< likewise
    uint64_t control_bytes = 0;   ///< expert ids, both ways
    double collective_seconds = 0;
    double wait_seconds = 0;  ///< of these, until the last rank came
  };
  std::vector<Device> devices;  ///< [ranks]
};

/// Steps by how they got tokens and experts together.
struct StepModeCounts {
  int64_t gather_all = 0;
  int64_t fetch_routed = 0;
  int64_t send_activations = 0;
};

/// An amount of one layer's work, in three units.
struct WorkAmount {
  double flops = 0;
  double tokens = 0;        ///< of requests of SaturationStats::context_tokens
  double milliseconds = 0;  ///< predicted
};

/// What was measured, and what it makes of a full step; as of now, since it follows the steps that run.
struct SaturationStats {
  double attention_flops_per_second = 0;
  double dense_flops_per_second = 0;
  double expert_flops_per_second = 0;
  double peer_bytes_per_second = 0;  ///< with what each copy costs besides; 0: nothing comes from other ranks
  double host_bytes_per_second = 0;  ///< likewise, from host memory
  double transfer_seconds = 0;       ///< t_EP: a layer's experts, by the slowest channel
  double gamma = 1;
  double context_tokens = 0;    ///< a request without reuse of this length has tokens that cost what tokens cost now
  WorkAmount threshold;         ///< T
  WorkAmount target;            ///< what steps are filled to
  int64_t step_tokens_max = 0;  ///< what they hold at most
  int64_t recalibrations = 0;   ///< times that rates, gamma or target were changed
};

/// What one rank did.
struct RankStats {
  int64_t steps = 0;
  int64_t staged_steps = 0;   ///< of these, handed out while the one before was running
  int64_t cached_tokens = 0;  ///< reused by its steps
  StepModeCounts steps_by_mode;
  int64_t computed_tokens = 0;
  double compute_seconds = 0;       ///< sum of its steps' durations
  double exposed_seconds = 0;       ///< of these, its compute stood still for experts
  double peer_wait_seconds = 0;     ///< of these, for another rank rather than for a link
  double busy_seconds = 0;          ///< its device had a step, from the first kernel to the last result
  double active_seconds = 0;        ///< from the first step's beginning to the last one's end, on the device
  double planner_wait_seconds = 0;  ///< it had no step although requests waited for it, or for any rank
  int64_t allocations = 0;          ///< of device and pinned memory so far; none is made by steps
  double fill = 0;                  ///< mean load of its steps, as a share of the target
  double load = 0;                  ///< the same mean in the load's own unit, which load_unit names
  std::vector<double> exposed_seconds_by_layer;  ///< [layers]
  std::string failure;                           ///< why it runs no more; empty while it does

  /// Time without a step between the first one and the last, as a share: what tokenizing, scheduling and writing
  /// answers leave the device idle if there is always more to do.
  [[nodiscard]] double idle_fraction() const noexcept {
    return active_seconds > 0 ? 1 - busy_seconds / active_seconds : 0;
  }
};

/// How evenly a random model used its experts: tokens of a layer's commonest expert over those of its rarest.
struct RouteStats {
  double asked_skew = 0;
  double skew_mean = 0;  ///< over the layers; infinite if some expert got no token
  double skew_max = 0;   ///< of the layer where it is largest
  int64_t tokens = 0;    ///< that were routed
};

/// What a calibration was measured with.
struct CalibrationSource {
  std::string model;  ///< as EngineStats::model
  std::string dtype;  ///< as EngineStats::dtype
};

/// Counts since the engine was made.
struct EngineStats {
  std::string model;            ///< last part of its folder's path, or its known name: "Qwen3-30B-A3B"
  int32_t layers = 0;           ///< that are computed: of a cut random model, those that are left
  bool random_weights = false;  ///< drawn, not read
  std::string dtype;            ///< of activations, keys and values: "bf16"
  std::string strategy;         ///< "asyncep"
  std::string device;           ///< "cpu:0 (2 threads)"
  std::string operations;       ///< "cpu bf16 (amx)"
  std::string experts;          ///< "resident"
  int32_t vocabulary = 0;       ///< token ids lie in [0, vocabulary)
  EngineMemory memory_plan;
  double load_seconds = 0;         ///< from create() to ready
  double weight_load_seconds = 0;  ///< of these, reading, packing and placing weights; their memory too
  uint64_t weight_bytes = 0;       ///< that were placed meanwhile, on all ranks and the host
  int64_t answered = 0;
  int64_t failed = 0;  ///< cancelled ones too
  int64_t steps = 0;
  int64_t prompt_tokens = 0;     ///< of answered requests
  int64_t cached_tokens = 0;     ///< of these, reused
  int64_t computed_tokens = 0;   ///< of these, computed
  double compute_seconds = 0;    ///< sum of the steps' durations, all ranks
  double exposed_seconds = 0;    ///< of these, compute stood still for experts
  double peer_wait_seconds = 0;  ///< of these, for another rank
  std::vector<RankStats> ranks;
  std::string load_unit;                         ///< "layer seconds", or "tokens" where nothing was measured
  std::optional<SaturationStats> saturation;     ///< unset where nothing was measured
  std::optional<CalibrationSource> calibration;  ///< of the file that TargetConfig::calibration names; unset without
  std::optional<GroupStats> group;   ///< of a synchronous baseline, whose ranks have no exposed time of their own
  std::optional<RouteStats> routes;  ///< of a random model
  int64_t dropped_spans = 0;         ///< of a trace: those that its memory had no room for

  /// Bytes of weights a second of loading them; 0 if that is not measured.
  [[nodiscard]] double weight_load_rate() const noexcept {
    return weight_load_seconds > 0 ? static_cast<double>(weight_bytes) / weight_load_seconds : 0;
  }
  /// Exposed time as a share of the steps' time.
  [[nodiscard]] double exposed_fraction() const noexcept {
    return compute_seconds > 0 ? exposed_seconds / compute_seconds : 0;
  }
};

/// An engine for one model. Thread-safe. Destroying it cancels what is unanswered and waits for the running step.
class Engine {
 public:
  /// Loads the model; blocks. Throws kInvalidArgument (with all problems of the configuration), kOutOfMemory with the
  /// memory plan, and whatever is wrong with the checkpoint.
  [[nodiscard]] static std::unique_ptr<Engine> create(const EngineConfig& config);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes a request and returns its id. Tokenizes on the calling thread; blocks while max_pending_requests or
  /// max_pending_bytes are unanswered. Throws kInvalidArgument for a request that can never run (too long, a candidate
  /// that is not one token, invalid UTF-8, ...), naming value and limit; then the callback is not called.
  uint64_t submit(const Request& request, Callback callback);
  /// The request will have a Failure of kCancelled, unless it already has its outcome.
  void cancel(uint64_t request);
  /// Blocks until everything submitted so far has its outcome.
  void drain();

  /// The token that `candidate` is after `context`: exactly one, which leaves the context's own tokens as they are.
  /// Empty if there is no such token.
  [[nodiscard]] std::optional<int32_t> candidate_token(std::string_view context, std::string_view candidate) const;
  [[nodiscard]] EngineStats stats() const;
  /// Rates and links as JSON for TargetConfig::calibration and `simulate --calibration`: as measured at the start, or
  /// as eight or more steps with at least a quarter of the work of step_tokens tokens have corrected them; with the
  /// model they are of: that of TargetConfig::calibration as long as no step has corrected what it says. Throws
  /// kInvalidArgument where nothing was measured (a synchronous group).
  [[nodiscard]] std::string calibration_json() const;
  /// What ran so far as a trace for chrome://tracing or ui.perfetto.dev: lanes of compute, waits, gathers and host
  /// copies for each rank. Throws kInvalidArgument unless EngineConfig::trace is set.
  [[nodiscard]] std::string trace_json() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What a checkpoint folder holds and what it takes to run it.
struct ModelReport {
  std::string family;
  std::string stored_dtype;
  int32_t layers = 0, moe_layers = 0, hidden = 0, query_heads = 0, kv_heads = 0, head_dim = 0;
  int32_t experts = 0, experts_per_token = 0, expert_intermediate = 0, dense_intermediate = 0;
  int32_t vocabulary = 0, max_positions = 0;
  bool tied_embeddings = false;
  int64_t parameters = 0, active_parameters = 0;
  int64_t linear_flops_per_token = 0;          ///< all layers, without the output head
  int64_t attention_flops_per_token_pair = 0;  ///< all layers, for each earlier token that a token sees
  int64_t head_flops_per_row = 0;
  uint64_t checkpoint_bytes = 0;
  uint64_t checkpoint_files = 0;
  uint64_t weight_bytes_bf16 = 0, expert_bytes_bf16 = 0;  ///< all weights; the experts of them
  uint64_t kv_bytes_per_token_bf16 = 0;
  EngineMemory cpu_memory_plan;       ///< what an engine of default configuration takes on this machine's CPU
  std::vector<std::string> problems;  ///< whatever would keep it from running; of tensors, 50 and a count of the rest
};

/// Looks at a checkpoint without loading it. Throws as far as not even config.json can be read; else problems has it.
[[nodiscard]] ModelReport inspect_model(const std::filesystem::path& folder);

}  // namespace zp
