// A collective is: say what one has, meet, read what the others have, meet again. Each rank writes only where no other
// reads meanwhile, so one copy of the data is enough.
#include "zp/parallel/cpu/virtual_collectives.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "zp/base/check.h"
#include "zp/base/clock.h"
#include "zp/device/cpu/cpu_device.h"
#include "zp/shape/model_shard.h"

namespace zp::cpu {
namespace {

void issue(Stream& stream, std::function<void()> act) {
  auto* cpu_stream = dynamic_cast<CpuStream*>(&stream);
  ZP_CHECK(cpu_stream != nullptr, "a collective of virtual ranks is issued on a stream of another device");
  cpu_stream->enqueue(std::move(act));
}

// Elements [begin, begin + count).
struct Part {
  int64_t begin = 0;
  int64_t count = 0;
};

std::vector<Part> parts_of_rows(std::span<const int64_t> rows, int64_t row_elements) {
  std::vector<Part> parts;
  int64_t begin = 0;
  for (const int64_t count : rows) {
    parts.push_back({begin, count * row_elements});
    begin += count * row_elements;
  }
  return parts;
}

// Nearly equal parts of a tensor, as a ring all-reduce cuts it.
std::vector<Part> equal_parts(int64_t elements, int32_t ranks) {
  std::vector<Part> parts;
  for (int32_t r = 0; r < ranks; ++r) {
    const int64_t begin = elements * r / ranks;
    parts.push_back({begin, elements * (r + 1) / ranks - begin});
  }
  return parts;
}

int64_t row_elements_of(const ConstTensorView& view) {
  ZP_CHECK(view.shape().rank() == 2, "a collective over a tensor of shape {}", view.shape().to_string());
  return view.dim(1);
}

std::vector<uint64_t> bytes_of(std::span<const Part> parts, DType dtype) {
  std::vector<uint64_t> bytes;
  for (const Part& part : parts) bytes.push_back(static_cast<uint64_t>(part.count) * size_of(dtype));
  return bytes;
}

template <typename T>
void sum_part(Meeting& meeting, const Part& part, T* to) {
  std::vector<const T*> addends;
  for (int32_t r = 0; r < meeting.ranks(); ++r) addends.push_back(meeting.posting(r).data.as<T>());
  for (int64_t i = part.begin; i < part.begin + part.count; ++i) {
    float sum = to_float(addends[0][i]);
    for (size_t r = 1; r < addends.size(); ++r) sum += to_float(addends[r][i]);
    to[i] = from_float<T>(sum);
  }
}

// Own part = sum over all ranks.
void reduce_own(Meeting& meeting, const Part& part, const TensorView& data) {
  if (data.dtype() == DType::kBf16) return sum_part(meeting, part, data.as<Bf16>());
  sum_part(meeting, part, data.as<float>());
}

// The other ranks' parts are copied from where they are.
void gather_others(Meeting& meeting, int32_t rank, std::span<const Part> parts, const TensorView& data) {
  const size_t element = size_of(data.dtype());
  for (int32_t r = 0; r < meeting.ranks(); ++r) {
    const Part& part = parts[static_cast<size_t>(r)];
    const size_t offset = static_cast<size_t>(part.begin) * element;
    if (r == rank || part.count == 0) continue;
    std::memcpy(data.data() + offset, meeting.posting(r).data.data() + offset,
                static_cast<size_t>(part.count) * element);
  }
}

void expect_same(Meeting& meeting, int32_t rank) {
  const Posting& own = meeting.posting(rank);
  for (int32_t r = 0; r < meeting.ranks(); ++r) {
    const Posting& other = meeting.posting(r);
    ZP_CHECK(other.data.shape() == own.data.shape() && other.data.dtype() == own.data.dtype(),
             "ranks {} and {} meet with tensors of shapes {} and {}", rank, r, own.data.shape().to_string(),
             other.data.shape().to_string());
    ZP_CHECK(std::ranges::equal(other.rows, own.rows), "ranks {} and {} meet with other counts of rows", rank, r);
  }
}

}  // namespace

// One collective in progress: times it, paces it, and counts it once it has succeeded.
struct VirtualCollectives::Call {
  Call(VirtualCollectives& collectives, CollectiveKind call_kind, const TrafficTag& call_tag)
      : owner(collectives), kind(call_kind), tag(call_tag), begin_ns(clock.now_ns()) {}

  [[nodiscard]] Meeting& meeting() const { return *owner.meeting_; }
  void meet() const { meeting().barrier(); }
  // All have come: from here on the link would be busy.
  void start() { start_ns = clock.now_ns(); }
  // Sleeps until links of this pace could have moved the bytes in `steps` steps.
  void pace(const TrafficBytes& moved, int64_t steps) {
    bytes = moved;
    int64_t ns = owner.pace_.latency_ns * steps;
    if (owner.pace_.bytes_per_second > 0)
      ns += static_cast<int64_t>(static_cast<double>(moved.larger()) * 1e9 /
                                 static_cast<double>(owner.pace_.bytes_per_second));
    const int64_t left_ns = start_ns + ns - clock.now_ns();
    if (ns > 0 && left_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
  }
  void finish() const {
    owner.traffic_.add(
        kind, tag, {.calls = 1, .bytes = bytes, .total_ns = clock.now_ns() - begin_ns, .wait_ns = start_ns - begin_ns});
  }

  VirtualCollectives& owner;
  CollectiveKind kind;
  TrafficTag tag;
  SteadyClock clock;
  int64_t begin_ns;
  int64_t start_ns = 0;
  TrafficBytes bytes;
};

void VirtualCollectives::all_gather(Stream& stream, const PartedRows& args, const TrafficTag& tag) {
  issue(stream, [this, args, tag] {
    Call call(*this, CollectiveKind::kAllGather, tag);
    const std::vector<Part> parts = parts_of_rows(args.rows, row_elements_of(args.data));
    meeting_->posting(rank_) = {.data = args.data, .in = {}, .rows = args.rows};
    call.meet();
    call.start();
    expect_same(*meeting_, rank_);
    gather_others(*meeting_, rank_, parts, args.data);
    call.pace(ring_all_gather(bytes_of(parts, args.data.dtype()), rank_), ranks() - 1);
    call.meet();
    call.finish();
  });
}

void VirtualCollectives::reduce_scatter(Stream& stream, const PartedRows& args, const TrafficTag& tag) {
  issue(stream, [this, args, tag] {
    Call call(*this, CollectiveKind::kReduceScatter, tag);
    const std::vector<Part> parts = parts_of_rows(args.rows, row_elements_of(args.data));
    meeting_->posting(rank_) = {.data = args.data, .in = {}, .rows = args.rows};
    call.meet();
    call.start();
    expect_same(*meeting_, rank_);
    reduce_own(*meeting_, parts[static_cast<size_t>(rank_)], args.data);
    call.pace(ring_reduce_scatter(bytes_of(parts, args.data.dtype()), rank_), ranks() - 1);
    call.meet();
    call.finish();
  });
}

void VirtualCollectives::all_reduce(Stream& stream, const TensorView& data, const TrafficTag& tag) {
  issue(stream, [this, data, tag] {
    Call call(*this, CollectiveKind::kAllReduce, tag);
    const std::vector<Part> parts = equal_parts(data.elements(), ranks());
    meeting_->posting(rank_) = {.data = data, .in = {}, .rows = {}};
    call.meet();
    call.start();
    expect_same(*meeting_, rank_);
    reduce_own(*meeting_, parts[static_cast<size_t>(rank_)], data);
    call.meet();
    gather_others(*meeting_, rank_, parts, data);
    call.pace(ring_all_reduce(bytes_of(parts, data.dtype()), rank_), int64_t{2} * (ranks() - 1));
    call.meet();
    call.finish();
  });
}

void VirtualCollectives::all_to_all(Stream& stream, const AllToAllArgs& args, const TrafficTag& tag) {
  issue(stream, [this, args, tag] {
    Call call(*this, CollectiveKind::kAllToAll, tag);
    meeting_->posting(rank_) = {.data = {}, .in = args.in, .rows = args.send_rows};
    call.meet();
    call.start();
    run_all_to_all(call, args);
    call.meet();
    call.finish();
  });
}

void VirtualCollectives::run_all_to_all(Call& call, const AllToAllArgs& args) const {
  const size_t row_bytes = static_cast<size_t>(row_elements_of(args.out)) * size_of(args.out.dtype());
  const auto own = static_cast<size_t>(rank_);
  TrafficBytes bytes;
  std::byte* to = args.out.data();
  for (int32_t r = 0; r < ranks(); ++r) {
    const auto other = static_cast<size_t>(r);
    const Posting& posting = meeting_->posting(r);
    ZP_CHECK(posting.in.dtype() == args.out.dtype() && posting.rows[own] == args.receive_rows[other],
             "rank {} sends {} rows to rank {}, which expects {}", r, posting.rows[own], rank_,
             args.receive_rows[other]);
    const auto before =
        static_cast<size_t>(std::accumulate(posting.rows.begin(), posting.rows.begin() + rank_, int64_t{0}));
    const size_t count_bytes = static_cast<size_t>(posting.rows[own]) * row_bytes;
    if (count_bytes > 0) std::memcpy(to, posting.in.data() + before * row_bytes, count_bytes);
    to += count_bytes;
    if (r == rank_) continue;
    bytes.received += count_bytes;
    bytes.sent += static_cast<size_t>(args.send_rows[other]) * row_bytes;
  }
  call.pace(bytes, ranks() - 1);
}

void VirtualCollectives::send(Stream& stream, const ConstTensorView& data, int32_t to, const TrafficTag& tag) {
  issue(stream, [this, data, to, tag] {
    Call call(*this, CollectiveKind::kSendReceive, tag);
    call.start();
    meeting_->send({rank_, to}, data);
    call.bytes = {.sent = data.size_bytes(), .received = 0};
    call.finish();
  });
}

void VirtualCollectives::receive(Stream& stream, const TensorView& data, int32_t from, const TrafficTag& tag) {
  issue(stream, [this, data, from, tag] {
    Call call(*this, CollectiveKind::kSendReceive, tag);
    meeting_->receive({from, rank_}, [&](const ConstTensorView& sent) {
      call.start();
      ZP_CHECK(sent.shape() == data.shape() && sent.dtype() == data.dtype(), "rank {} sends {}, rank {} expects {}",
               from, sent.shape().to_string(), rank_, data.shape().to_string());
      if (data.size_bytes() > 0) std::memcpy(data.data(), sent.data(), data.size_bytes());
      call.pace({.sent = 0, .received = data.size_bytes()}, 1);
    });
    call.finish();
  });
}

std::vector<std::unique_ptr<Collectives>> make_virtual_collectives(const CollectivesSpec& spec) {
  const auto meeting = std::make_shared<Meeting>(spec.ranks);
  std::vector<std::unique_ptr<Collectives>> handles;
  for (int32_t r = 0; r < spec.ranks; ++r) handles.push_back(std::make_unique<VirtualCollectives>(meeting, r, spec));
  return handles;
}

}  // namespace zp::cpu
