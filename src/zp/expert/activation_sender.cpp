// Plans who gets which rows.
#include "zp/expert/activation_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "zp/base/check.h"

namespace zp {

// Calls `make(tensor, dtype, shape)` for each buffer, so that planning and allocating agree. `sender` may be null.
template <typename Make>
void ActivationSender::for_each_buffer(ActivationSender* sender, const ActivationSenderSpec& spec, DType activation,
                                       Make&& make) {
  const int64_t rows = spec.tokens * spec.experts_per_token;
  make(sender == nullptr ? nullptr : &sender->sent_, activation, Shape{rows, spec.size.hidden});
  make(sender == nullptr ? nullptr : &sender->results_, DType::kF32, Shape{rows, spec.size.hidden});
  make(sender == nullptr ? nullptr : &sender->own_ids_, DType::kI32, Shape{rows, 1});
  make(sender == nullptr ? nullptr : &sender->ones_, DType::kF32, Shape{rows, 1});
}

ActivationSender::ActivationSender(Parts parts, const ActivationSenderSpec& spec)
    : parts_(std::move(parts)), spec_(spec), experts_(parts_.cluster.local_experts(spec.rank)) {
  for_each_buffer(this, spec, parts_.ops.activation_dtype(), [&](Tensor* tensor, DType dtype, const Shape& shape) {
    *tensor = Tensor(parts_.device, dtype, shape);
  });
  const std::vector<float> ones(static_cast<size_t>(ones_.shape().elements()), 1.0F);
  const std::unique_ptr<Stream> stream = parts_.device.create_stream("sender");
  stream->copy(ones_.view().data(), ones.data(), ones_.size_bytes());
  stream->synchronize();
}

// After a failure others may still be at work on its rows.
ActivationSender::~ActivationSender() { (void)has_lost_jobs(); }

uint64_t ActivationSender::buffer_bytes(const ActivationSenderSpec& spec, DType activation) {
  uint64_t bytes = 0;
  for_each_buffer(nullptr, spec, activation, [&](Tensor*, DType dtype, const Shape& shape) {
    bytes += static_cast<uint64_t>(shape.elements()) * size_of(dtype);
  });
  return bytes;
}

bool ActivationSender::owners_are_alive() const {
  return std::ranges::all_of(parts_.servers, [](const ExpertServer* server) { return server->is_alive(); });
}

void ActivationSender::begin_layer(Stream& stream, int32_t layer, const MoeRows& rows) {
  ZP_CHECK(rows.ids.dim(0) <= spec_.tokens, "{} tokens are sent, planned for {}", rows.ids.dim(0), spec_.tokens);
  const Event before = stream.record(EventTiming::kTimed);
  ids_.resize(static_cast<size_t>(rows.ids.elements()));
  stream.copy(ids_.data(), rows.ids.data(), rows.ids.size_bytes());
  // From here on the layer before is done: nothing of this rank or of others reads its lists and rows.
  stream.synchronize();
  tickets_.clear();
  plan(layer);
  const Event routed = stream.record(EventTiming::kTimed);
  if (parts_.spans != nullptr) parts_.spans->add(Lane::kWait, fmt::format("wait {}", layer), before, routed);
  waits_.add(layer, before, routed);

  const auto count = static_cast<int64_t>(tokens_.size());
  parts_.ops.gather_rows(stream, {.x = rows.x, .rows = tokens_, .out = sent_.view().rows(0, count)});
  const Event ready = stream.record();
  const auto ranks = static_cast<int32_t>(parts_.servers.size());
  // From the right-hand neighbour on, so that ranks that begin together do not all begin with the same owner.
  for (int32_t i = 1; i < ranks; ++i) {
    const auto owner = static_cast<size_t>((spec_.rank + i) % ranks);
    ExpertServer& server = *parts_.servers[owner];
    for (int64_t done = 0; done < counts_[owner];) {
      const int64_t begin = begins_[owner] + done;
      const int64_t part = std::min(server.job_rows(), counts_[owner] - done);
      tickets_.push_back(std::make_shared<JobTicket>());
      server.submit({.layer = layer,
                     .rows = part,
                     .x = sent_.view().rows(begin, part).data(),
                     .experts = row_expert_.data() + begin,
                     .results = results_.view().rows(begin, part).data(),
                     .rows_ready = ready,
                     .ticket = tickets_.back()});
      done += part;
    }
  }
}

void ActivationSender::finish_layer(Stream& stream, int32_t layer, const MoeRows& rows) {
  const auto self = static_cast<size_t>(spec_.rank);
  const int64_t own = counts_[self];
  ZP_CHECK(begins_[self] == 0, "own rows begin at {}", begins_[self]);
  if (own > 0) {
    const TensorView ids = own_ids_.view().rows(0, own);
    stream.copy(ids.data(), row_expert_.data(), ids.size_bytes());
    parts_.ops.moe(stream, {.x = sent_.view().rows(0, own),
                            .ids = ids,
                            .weights = ones_.view().rows(0, own),
                            .experts = experts_.at(static_cast<size_t>(layer)),
                            .size = spec_.size,
                            .out = results_.view().rows(0, own)});
  }
  const Event before = stream.record(EventTiming::kTimed);
  std::vector<Event> computed;
  for (const auto& ticket : tickets_) {
    JobTicket::Done done = ticket->wait();
    stream.wait(done.arrived);
    computed.push_back(std::move(done.computed));
  }
  const Event after = stream.record(EventTiming::kTimed);
  if (parts_.spans != nullptr) parts_.spans->add(Lane::kWait, fmt::format("wait {}", layer), before, after);
  waits_.add(layer, before, after, std::move(computed));
  parts_.ops.combine(stream, {.x = results_.view().rows(0, static_cast<int64_t>(tokens_.size())),
                              .rows = places_,
                              .weights = rows.weights,
                              .out = rows.out});
}

// Rows in order of their owners, then of token and choice.
void ActivationSender::plan(int32_t layer) {
  const Placement& placement = parts_.cluster.placement();
  const auto ranks = static_cast<size_t>(placement.ranks());
  const auto self = static_cast<size_t>(spec_.rank);
  const auto owner_of = [&](int32_t expert) {
    const int32_t home = placement.home({layer, expert});
    ZP_CHECK(home >= 0, "expert {} of layer {} has no owner ({})", expert, layer, home);
    return static_cast<size_t>(home);
  };
  counts_.assign(ranks, 0);
  for (const int32_t expert : ids_) ++counts_[owner_of(expert)];
  begins_.assign(ranks, 0);
  int64_t begin = 0;
  for (size_t i = 0; i < ranks; ++i) {
    const size_t owner = (self + i) % ranks;
    begins_[owner] = begin;
    begin += counts_[owner];
  }
  std::vector<int64_t> next = begins_;
  places_.resize(ids_.size());
  tokens_.resize(ids_.size());
  row_expert_.resize(ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) {
    const int64_t place = next[owner_of(ids_[i])]++;
    places_[i] = place;
    tokens_[static_cast<size_t>(place)] = static_cast<int64_t>(i) / spec_.experts_per_token;
    row_expert_[static_cast<size_t>(place)] = ids_[i];
  }
}

bool ActivationSender::has_lost_jobs() noexcept {
  bool lost = false;
  for (const auto& ticket : tickets_) {
    try {
      ticket->wait().arrived.wait();
    } catch (const std::exception&) {
      lost = true;
    }
  }
  return lost;
}

}  // namespace zp
