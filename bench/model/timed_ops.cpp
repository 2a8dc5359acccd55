// Counts each operation's work and records an event at its beginning and at its end.
#include "bench/model/timed_ops.h"

#include <algorithm>

#include "zp/base/error.h"

namespace zp::bench {
namespace {

double bytes_of(const ConstTensorView& view) { return view.empty() ? 0 : static_cast<double>(view.size_bytes()); }

// What a norm reads and writes but for what it adds.
double norm_bytes_alone(const ResidualNormArgs& args, bool adds) {
  return (adds ? 2 : 1) * bytes_of(args.residual) + bytes_of(args.out);
}
double norm_bytes(const ResidualNormArgs& args) {
  return norm_bytes_alone(args, !args.delta.empty()) + bytes_of(args.delta);
}

double reached_seconds(const Event& event) {
  const std::optional<int64_t> reached_ns = event.reached_ns();
  ZP_CHECK(reached_ns.has_value(), "a pass is looked at before it has run");
  return static_cast<double>(*reached_ns) * 1e-9;
}

}  // namespace

void TimedOps::start() {
  entries_.clear();
  totals_.clear();
  recording_ = true;
}

PassTotals TimedOps::stop() {
  recording_ = false;
  PassTotals totals{.stages = std::move(totals_), .seconds = 0};
  for (const Entry& entry : entries_) {
    StageTotal& stage = totals.stages[entry.stage];
    stage.seconds += reached_seconds(entry.end) - reached_seconds(entry.begin);
    ++stage.calls;
  }
  if (!entries_.empty())
    totals.seconds = reached_seconds(entries_.back().end) - reached_seconds(entries_.front().begin);
  entries_.clear();
  return totals;
}

void TimedOps::add_work(const std::string& stage, const Work& work) {
  StageTotal& total = totals_[stage];
  total.kind = work.kind;
  total.flops += work.flops;
  total.bytes += work.bytes;
}

template <typename Issue>
void TimedOps::time(Stream& stream, const std::string& stage, const Work& work, Issue&& issue) {
  if (!recording_) return issue();
  Event begin = stream.record(EventTiming::kTimed);
  issue();
  entries_.push_back({stage, std::move(begin), stream.record(EventTiming::kTimed)});
  add_work(stage, work);
}

std::string TimedOps::product_name(int64_t n, int64_t k) const {
  const int64_t q_dim = int64_t{shape_.query_heads} * shape_.head_dim;
  const int64_t kv_dim = int64_t{shape_.kv_heads} * shape_.head_dim;
  if (n == q_dim + 2 * kv_dim && k == shape_.hidden) return "qkv";
  if (n == shape_.hidden && k == q_dim) return "attention out";
  if (n == shape_.experts && k == shape_.hidden) return "router";
  return "dense feed-forward";
}

void TimedOps::embed(Stream& stream, const EmbedArgs& args) {
  const double rows = static_cast<double>(args.ids.size()) * static_cast<double>(args.table.dim(1));
  const auto element = static_cast<double>(size_of(args.table.dtype()));
  time(stream, "embed", {.bytes = rows * element + bytes_of(args.out)}, [&] { inner().embed(stream, args); });
}

void TimedOps::residual_norm(Stream& stream, const ResidualNormArgs& args) {
  time(stream, "norms", {.bytes = norm_bytes(args)}, [&] { inner().residual_norm(stream, args); });
}

void TimedOps::linear(Stream& stream, const LinearArgs& args) {
  const auto features = static_cast<double>(args.weight->n) * static_cast<double>(args.weight->k);
  const Work work{.kind = StageKind::kDense,
                  .flops = 2 * static_cast<double>(args.x.dim(0)) * features,
                  .bytes = bytes_of(args.x) + (args.add ? 2 : 1) * bytes_of(args.out) +
                           static_cast<double>(args.weight->buffer.size_bytes())};
  time(stream, product_name(args.weight->n, args.weight->k), work, [&] { inner().linear(stream, args); });
}

void TimedOps::rope(Stream& stream, const RopeArgs& args) {
  const double bytes = bytes_of(args.qkv) + bytes_of(args.q) + bytes_of(args.k) + bytes_of(args.v);
  time(stream, "rope", {.bytes = bytes}, [&] { inner().rope(stream, args); });
}

void TimedOps::attention(Stream& stream, const AttentionArgs& args) {
  double pairs = 0;
  for (const AttentionSequence& sequence : args.sequences) {
    double context = 0;
    for (const KvExtent& extent : sequence.prefix) context += extent.tokens;
    const double tokens = sequence.tokens;
    pairs += tokens * context + tokens * (tokens + 1) / 2;
  }
  const Work work{.kind = StageKind::kAttention,
                  .flops = 4 * static_cast<double>(args.q.dim(1) * args.q.dim(2)) * pairs,
                  .bytes = bytes_of(args.q) + bytes_of(args.k) + bytes_of(args.v) + bytes_of(args.out)};
  time(stream, "attention", work, [&] { inner().attention(stream, args); });
}

void TimedOps::store_kv(Stream& stream, const StoreKvArgs& args) {
  double tokens = 0;
  for (const KvStore& store : args.stores) tokens += store.tokens;
  if (tokens == 0) return inner().store_kv(stream, args);
  const double row_bytes = bytes_of(args.k) / static_cast<double>(std::max<int64_t>(1, args.k.dim(0)));
  time(stream, "store keys and values", {.bytes = 4 * tokens * row_bytes}, [&] { inner().store_kv(stream, args); });
}

void TimedOps::route(Stream& stream, const RouteArgs& args) {
  const double bytes = bytes_of(args.logits) + bytes_of(args.ids) + bytes_of(args.weights);
  time(stream, "route", {.bytes = bytes}, [&] { inner().route(stream, args); });
}

void TimedOps::end_stage(Stream& stream, std::string_view stage) {
  Event end = stream.record(EventTiming::kTimed);
  entries_.push_back({std::string(stage), *stage_begin_, end});
  stage_begin_ = std::move(end);
}

// What a backend tells apart is timed apart; what is left after the last part it told of is the sum of the experts, and
// the norm that follows.
void TimedOps::moe(Stream& stream, const MoeArgs& args) {
  if (!recording_) return inner().moe(stream, args);
  MoeArgs observed = args;
  observed.observer = this;
  const size_t before = entries_.size();
  stage_begin_ = stream.record(EventTiming::kTimed);
  inner().moe(stream, observed);
  const bool parts = entries_.size() > before;
  const char* sum = args.norm_follows() ? "combine and norm" : "combine";
  entries_.push_back({parts ? sum : "experts", *stage_begin_, stream.record(EventTiming::kTimed)});

  const auto slots = static_cast<double>(args.ids.elements());
  const auto hidden = static_cast<double>(args.size.hidden);
  const auto intermediate = static_cast<double>(args.size.intermediate);
  const auto element = static_cast<double>(size_of(args.x.dtype()));
  // Of few slots, at most one expert each is read.
  const double weights = std::min(static_cast<double>(args.experts.size()), slots) * hidden * intermediate * element;
  const Work gate_up{.kind = StageKind::kExperts,
                     .flops = 4 * slots * hidden * intermediate,
                     .bytes = 2 * weights + bytes_of(args.x) + slots * intermediate * element};
  const Work down{.kind = StageKind::kExperts,
                  .flops = 2 * slots * hidden * intermediate,
                  .bytes = weights + slots * (intermediate + hidden) * element};
  const double after_sum = args.norm_follows() ? norm_bytes_alone(args.then, true) : bytes_of(args.out);
  const Work combine{.bytes = slots * hidden * element + after_sum};
  if (parts) {
    add_work("sort", {.bytes = 3 * bytes_of(args.ids)});
    add_work("experts gate+up", gate_up);
    add_work("experts down", down);
    add_work(sum, combine);
  } else {
    add_work("experts", {.kind = StageKind::kExperts,
                         .flops = gate_up.flops + down.flops,
                         .bytes = 3 * weights + bytes_of(args.x) + after_sum});
  }
}

void TimedOps::swiglu(Stream& stream, const SwigluArgs& args) {
  time(stream, "swiglu", {.bytes = bytes_of(args.x) + bytes_of(args.out)}, [&] { inner().swiglu(stream, args); });
}

void TimedOps::gather_rows(Stream& stream, const GatherRowsArgs& args) {
  time(stream, "head", {.kind = StageKind::kDense, .bytes = 2 * bytes_of(args.out)},
       [&] { inner().gather_rows(stream, args); });
}

void TimedOps::convert(Stream& stream, const ConvertArgs& args) {
  time(stream, "convert", {.bytes = bytes_of(args.x) + bytes_of(args.out)}, [&] { inner().convert(stream, args); });
}

void TimedOps::combine(Stream& stream, const CombineArgs& args) {
  time(stream, "combine",
       {.bytes = static_cast<double>(args.rows.size()) * static_cast<double>(args.x.dim(1)) *
                 static_cast<double>(size_of(args.x.dtype()))},
       [&] { inner().combine(stream, args); });
}

void TimedOps::head(Stream& stream, const HeadArgs& args) {
  const auto features = static_cast<double>(args.weight->n) * static_cast<double>(args.weight->k);
  const Work work{.kind = StageKind::kDense,
                  .flops = 2 * static_cast<double>(args.x.dim(0)) * features,
                  .bytes = static_cast<double>(args.weight->buffer.size_bytes())};
  time(stream, "head", work, [&] { inner().head(stream, args); });
}

}  // namespace zp::bench
