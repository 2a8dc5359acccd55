// The public engine: checks requests on the caller's thread and hands them to the scheduling thread.
#include "zeroprefill/engine.h"

#include <fmt/ranges.h>

#include "zp/base/clock.h"
#include "zp/engine/dispatcher.h"
#include "zp/engine/group_setup.h"
#include "zp/engine/intake.h"
#include "zp/engine/lockstep_group.h"
#include "zp/engine/rank_group.h"
#include "zp/engine/route_counter.h"
#include "zp/engine/setup.h"
#include "zp/engine/source.h"
#include "zp/engine/target_setup.h"
#include "zp/engine/trace.h"
#include "zp/model/weight_source.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp {

namespace {

EngineSetup announced_setup(const EngineConfig& config, const WeightSource& source) {
  EngineSetup setup = is_group(config) ? make_group_setup(config, source) : make_setup(config, source);
  if (config.on_memory_plan) config.on_memory_plan(setup.memory);
  return setup;
}

MeasuredModel measured_model(const EngineConfig& config, const EngineSetup& setup) {
  const RankSpec& rank = setup.group ? setup.group->rank : setup.ranks.front();
  return {.name = model_name(config), .dtype = std::string(to_string(*rank.ops.activation))};
}

std::unique_ptr<const Tokenizer> load_tokenizer(const EngineConfig& config) {
  const std::filesystem::path folder = tokenizer_folder(config);
  return folder.empty() ? nullptr : Tokenizer::load(folder);
}

}  // namespace

class Engine::Impl final {
 public:
  explicit Impl(const EngineConfig& config)
      : begin_ns_(clock_.now_ns()),
        config_(config),
        source_(open_source(config)),
        setup_(announced_setup(config, *source_)),
        model_(measured_model(config, setup_)),
        routes_(source_->draws_routes() ? std::make_unique<RouteCounter>(*source_, config.random.expert_skew)
                                        : nullptr),
        intake_(load_tokenizer(config), {.vocabulary = source_->shape().vocabulary,
                                         .max_request_tokens = setup_.scheduler.max_request_tokens,
                                         .model_revision = setup_.model_revision}),
        lockstep_(setup_.group ? std::make_unique<LockstepGroup>(*setup_.group, *source_, clock_) : nullptr),
        ranks_(setup_.group ? nullptr : std::make_unique<RankGroup>(setup_, *source_)),
        dispatcher_(setup_.scheduler, source_->shape(), clock_,
                    [this](int32_t rank, StepRunner::Report report) { return make_rank(rank, std::move(report)); },
                    {.rank_failure = rank_failure(setup_),
                     .routes = routes_.get(),
                     .pending_bytes_max = setup_.pending_bytes_max,
                     .policy = setup_.policy,
                     .load = setup_.load}),
        load_seconds_(static_cast<double>(clock_.now_ns() - begin_ns_) * 1e-9) {}

  [[nodiscard]] const Intake& intake() const noexcept { return intake_; }
  [[nodiscard]] Dispatcher& dispatcher() noexcept { return dispatcher_; }
  [[nodiscard]] EngineStats stats() const {
    EngineStats stats = dispatcher_.stats();
    stats.model = model_.name;
    stats.layers = source_->shape().layers;
    stats.random_weights = is_random(config_);
    stats.dtype = model_.dtype;
    stats.strategy = config_.strategy;
    if (setup_.known) stats.calibration = {.model = setup_.known->model.name, .dtype = setup_.known->model.dtype};
    stats.load_seconds = load_seconds_;
    stats.memory_plan = setup_.memory;
    stats.vocabulary = source_->shape().vocabulary;
    if (lockstep_) stats.group = lockstep_->stats();
    if (routes_) stats.routes = routes_->stats();
    if (!ranks_) return stats;
    stats.dropped_spans = ranks_->dropped_spans();
    stats.weight_load_seconds = ranks_->load_seconds();
    stats.weight_bytes = ranks_->weight_bytes();
    for (int32_t rank = 0; rank < ranks_->size(); ++rank)
      stats.ranks[static_cast<size_t>(rank)].allocations = ranks_->rank(rank).device->allocations();
    return stats;
  }
  [[nodiscard]] std::string calibration() const {
    const std::optional<MeasuredRank> measured = dispatcher_.settled();
    if (!measured) fail(ErrorCode::kInvalidArgument, "strategy {} measures nothing", config_.strategy);
    // What no step has corrected is still of the model that the file names.
    const bool as_read = setup_.known && measured->rates == setup_.known->measured.rates;
    return format_calibration({.operations = dispatcher_.stats().operations,
                               .model = as_read ? setup_.known->model : model_,
                               .measured = *measured});
  }
  [[nodiscard]] std::string trace() const {
    if (!setup_.trace) fail(ErrorCode::kInvalidArgument, "no trace was kept: EngineConfig::trace is not set");
    return format_trace(ranks_->spans());
  }

 private:
  std::unique_ptr<StepRunner> make_rank(int32_t rank, StepRunner::Report report) {
    if (lockstep_) return lockstep_->make_runner(rank, std::move(report));
    RankGroup::Loaded& loaded = ranks_->rank(rank);
    if (setup_.known) require_operations(*setup_.known, config_, loaded.ops->description());
    return std::make_unique<Rank>(setup_.ranks.at(static_cast<size_t>(rank)),
                                  Rank::Parts{.device = *loaded.device,
                                              .ops = *loaded.ops,
                                              .shape = source_->shape(),
                                              .weights = loaded.weights,
                                              .experts = ranks_->make_experts(rank),
                                              .spans = loaded.spans.get(),
                                              .clock = clock_},
                                  std::move(report));
  }

  SteadyClock clock_;
  int64_t begin_ns_;
  EngineConfig config_;
  std::unique_ptr<WeightSource> source_;
  EngineSetup setup_;
  MeasuredModel model_;
  std::unique_ptr<RouteCounter> routes_;  // of a random model
  Intake intake_;
  std::unique_ptr<LockstepGroup> lockstep_;  // of a synchronous strategy; else null, and there is
  std::unique_ptr<RankGroup> ranks_;
  Dispatcher dispatcher_;
  double load_seconds_;
};

std::unique_ptr<Engine> Engine::create(const EngineConfig& config) {
  if (const auto problems = validate(config); !problems.empty())
    fail(ErrorCode::kInvalidArgument, "{}", fmt::join(problems, "; "));
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(config)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

uint64_t Engine::submit(const Request& request, Callback callback) {
  return impl_->dispatcher().submit(impl_->intake().check(request), std::move(callback));
}

void Engine::cancel(uint64_t request) { impl_->dispatcher().cancel(request); }

void Engine::drain() { impl_->dispatcher().drain(); }

std::optional<int32_t> Engine::candidate_token(std::string_view context, std::string_view candidate) const {
  return impl_->intake().candidate_token(context, candidate);
}

EngineStats Engine::stats() const { return impl_->stats(); }

std::string Engine::calibration_json() const { return impl_->calibration(); }

std::string Engine::trace_json() const { return impl_->trace(); }

}  // namespace zp
