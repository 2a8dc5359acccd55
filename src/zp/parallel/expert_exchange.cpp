// Dispatch, compute, combine.
#include "zp/parallel/expert_exchange.h"

#include <numeric>
#include <utility>

#include "zp/base/check.h"
#include "zp/base/math.h"

namespace zp {
namespace {

// Calls `make(index, dtype, shape)` for each buffer in the order of the class, so that planning and allocating agree.
template <typename Make>
void for_each_buffer(const ModelShape& m, DType activation, int64_t tokens, int32_t ranks, Make&& make) {
  const int64_t k = m.experts_per_token;
  const int64_t rows = tokens * k;
  const int64_t own_rows = ceil_div(tokens, int64_t{ranks}) * k;
  make(0, DType::kI32, Shape{tokens, k});
  make(1, activation, Shape{own_rows, m.hidden});
  make(2, activation, Shape{rows, m.hidden});
  make(3, DType::kI32, Shape{rows, 1});
  make(4, DType::kF32, Shape{rows, 1});
  make(5, DType::kF32, Shape{rows, m.hidden});
  make(6, activation, Shape{rows, m.hidden});
  make(7, activation, Shape{own_rows, m.hidden});
}

}  // namespace

size_t ExpertExchange::buffer_bytes(const ModelShape& shape, DType activation, int64_t chunk_tokens, int32_t ranks) {
  size_t bytes = 0;
  for_each_buffer(shape, activation, chunk_tokens, ranks, [&](int, DType dtype, const Shape& dims) {
    bytes += static_cast<size_t>(dims.elements()) * size_of(dtype);
  });
  return bytes;
}

ExpertExchange::ExpertExchange(Parts parts, int64_t chunk_tokens) : parts_(std::move(parts)) {
  Tensor* const tensors[] = {&all_ids_, &sent_, &received_, &received_ids_, &ones_, &computed_, &results_, &returned_};
  for_each_buffer(
      parts_.shape, parts_.ops.activation_dtype(), chunk_tokens, parts_.collectives.ranks(),
      [&](int index, DType dtype, const Shape& dims) { *tensors[index] = Tensor(parts_.device, dtype, dims); });
  const std::vector<float> ones(static_cast<size_t>(ones_.shape().elements()), 1.0F);
  const std::unique_ptr<Stream> stream = parts_.device.create_stream("exchange");
  stream->copy(ones_.view().data(), ones.data(), ones_.size_bytes());
  stream->synchronize();
}

void ExpertExchange::run(Stream& stream, const Args& args) {
  const Round& round = *args.round;
  const ChunkRows& own = round.own;
  const int64_t k = parts_.shape.experts_per_token;
  const int64_t hidden = parts_.shape.hidden;
  Ops& ops = parts_.ops;
  Collectives& group = parts_.collectives;

  const TensorView all_ids = all_ids_.view().rows(0, round.total);
  const TensorView own_ids = args.buffers.expert_ids.rows(own.at, own.count);
  stream.copy(all_ids.rows(own.at, own.count).data(), own_ids.data(), own_ids.size_bytes());
  group.all_gather(stream, {all_ids, round.counts}, {args.layer, TrafficUse::kControl});
  ids_host_.resize(static_cast<size_t>(round.total * k));
  stream.copy(ids_host_.data(), all_ids.data(), all_ids.size_bytes());
  stream.synchronize();  // from here on nothing reads the previous call's vectors
  plan(round);

  const TensorView sent = sent_.view().rows(0, own.count * k);
  const TensorView returned = returned_.view().rows(0, own.count * k);
  const auto received_rows = static_cast<int64_t>(expert_of_row_.size());
  const TensorView received = received_.view().rows(0, received_rows);
  const TensorView ids = received_ids_.view().rows(0, received_rows);
  const TensorView computed = computed_.view().rows(0, received_rows);
  const bool same_type = ops.activation_dtype() == DType::kF32;
  const TensorView results = same_type ? computed : results_.view().rows(0, received_rows);

  ops.gather_rows(stream, {.x = args.buffers.normed.rows(own.at, own.count), .rows = sent_tokens_, .out = sent});
  group.all_to_all(stream, {.in = sent, .send_rows = send_counts_, .out = received, .receive_rows = receive_counts_},
                   {args.layer, TrafficUse::kActivations});
  stream.copy(ids.data(), expert_of_row_.data(), ids.size_bytes());
  ops.moe(stream, {.x = received,
                   .ids = ids,
                   .weights = ones_.view().rows(0, received_rows),
                   .experts = args.experts,
                   .size = {hidden, parts_.shape.expert_intermediate},
                   .out = computed});
  if (!same_type) ops.convert(stream, {.x = computed, .out = results});
  group.all_to_all(stream, {.in = results, .send_rows = receive_counts_, .out = returned, .receive_rows = send_counts_},
                   {args.layer, TrafficUse::kActivations});
  ops.combine(stream, {.x = returned,
                       .rows = sent_places_,
                       .weights = args.buffers.expert_weights.rows(own.at, own.count),
                       .out = args.buffers.delta.rows(own.at, own.count)});
}

// Who sends what to whom, from everybody's ids. Senders order their rows by destination, then by token and choice, and
// this rank expects them so.
void ExpertExchange::plan(const Round& round) {
  const auto ranks = static_cast<size_t>(parts_.collectives.ranks());
  const auto self = static_cast<size_t>(parts_.collectives.rank());
  const auto k = static_cast<size_t>(parts_.shape.experts_per_token);
  const auto owner_of = [&](int32_t expert) {
    ZP_CHECK(expert >= 0 && static_cast<size_t>(expert) < parts_.owners.size(), "expert {} of {}", expert,
             parts_.owners.size());
    return static_cast<size_t>(parts_.owners[static_cast<size_t>(expert)]);
  };
  send_counts_.assign(ranks, 0);
  receive_counts_.assign(ranks, 0);
  expert_of_row_.clear();
  const int32_t* ids = ids_host_.data();
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < static_cast<size_t>(round.counts[r]) * k; ++i) {
      const int32_t expert = *ids++;
      const size_t owner = owner_of(expert);
      if (r == self) ++send_counts_[owner];
      if (owner != self) continue;
      ++receive_counts_[r];
      expert_of_row_.push_back(expert);
    }
  }
  const size_t own_slots = static_cast<size_t>(round.own.count) * k;
  const int32_t* own_ids = ids_host_.data() + static_cast<size_t>(round.own.at) * k;
  std::vector<int64_t> next(ranks);
  std::exclusive_scan(send_counts_.begin(), send_counts_.end(), next.begin(), int64_t{0});
  sent_tokens_.resize(own_slots);
  sent_places_.resize(own_slots);
  for (size_t i = 0; i < own_slots; ++i) {
    const int64_t place = next[owner_of(own_ids[i])]++;
    sent_places_[i] = place;
    sent_tokens_[static_cast<size_t>(place)] = static_cast<int64_t>(i / k);
  }
}

}  // namespace zp
