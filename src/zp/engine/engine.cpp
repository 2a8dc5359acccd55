// The public engine: checks requests on the caller's thread and hands them to the scheduling thread.
#include "zeroprefill/engine.h"

#include <fmt/ranges.h>

#include "zp/base/clock.h"
#include "zp/engine/dispatcher.h"
#include "zp/engine/group_setup.h"
#include "zp/engine/intake.h"
#include "zp/engine/lockstep_group.h"
#include "zp/engine/setup.h"
#include "zp/model/weights.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp {

class Engine::Impl final {
 public:
  explicit Impl(const EngineConfig& config)
      : begin_ns_(clock_.now_ns()),
        files_(config.model),
        setup_(is_group(config) ? make_group_setup(config, files_) : make_setup(config, files_)),
        intake_(Tokenizer::load(config.model), {.vocabulary = files_.shape().vocabulary,
                                                .max_request_tokens = setup_.scheduler.max_request_tokens,
                                                .model_revision = setup_.model_revision}),
        group_(setup_.group ? std::make_unique<LockstepGroup>(*setup_.group, files_, clock_) : nullptr),
        dispatcher_(setup_.scheduler, files_.shape(), clock_,
                    [this](int32_t rank, StepRunner::Report report) { return make_rank(rank, std::move(report)); }),
        load_seconds_(static_cast<double>(clock_.now_ns() - begin_ns_) * 1e-9) {}

  [[nodiscard]] const Intake& intake() const noexcept { return intake_; }
  [[nodiscard]] Dispatcher& dispatcher() noexcept { return dispatcher_; }
  [[nodiscard]] EngineStats stats() const {
    EngineStats stats = dispatcher_.stats();
    stats.load_seconds = load_seconds_;
    stats.memory_plan = setup_.plan.items;
    if (group_) stats.group = group_->stats();
    return stats;
  }

 private:
  std::unique_ptr<StepRunner> make_rank(int32_t rank, StepRunner::Report report) {
    if (group_) return group_->make_runner(rank, std::move(report));
    return std::make_unique<Rank>(setup_.ranks.at(static_cast<size_t>(rank)), files_, clock_, std::move(report));
  }

  SteadyClock clock_;
  int64_t begin_ns_;
  ModelFiles files_;
  EngineSetup setup_;
  Intake intake_;
  std::unique_ptr<LockstepGroup> group_;  // null unless the strategy is a synchronous one
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

}  // namespace zp
