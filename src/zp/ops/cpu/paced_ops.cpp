// Sleeps after each operation that multiplies matrices.
#include "zp/ops/cpu/paced_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "zp/base/check.h"
#include "zp/base/clock.h"

namespace zp::cpu {

namespace {

// A sleeping thread wakes late, and an operation on a busy machine takes longer than modelled. An operation that
// follows so soon makes up for it, but for no more than kLateNsMax: else a modelled device would slow down with every
// operation.
constexpr int64_t kSoonNs = 500'000;
constexpr int64_t kLateNsMax = 2'000'000;

}  // namespace

PacedOps::PacedOps(CpuDevice& device, std::unique_ptr<Ops> inner, const Pace& pace)
    : ForwardedOps(std::move(inner)),
      device_(device),
      pace_(pace),
      description_(
          fmt::format("{}, paced at {:g} GFLOP/s", this->inner().description(), pace.flops_per_second * 1e-9)) {
  ZP_CHECK(pace.flops_per_second > 0 && pace.attention_keys >= 0, "paced at {} FLOP/s, {} keys more",
           pace.flops_per_second, pace.attention_keys);
}

template <typename Issue>
void PacedOps::pace(Stream& stream, int64_t flops, Issue&& issue) {
  auto* cpu_stream = dynamic_cast<CpuStream*>(&stream);
  ZP_CHECK(cpu_stream != nullptr, "an operation of the CPU is issued on a stream of another device");
  const auto duration_ns = static_cast<int64_t>(static_cast<double>(flops) * 1e9 / pace_.flops_per_second);
  const auto end_ns = std::make_shared<int64_t>(0);
  cpu_stream->enqueue([this, end_ns, duration_ns] {
    const int64_t now_ns = SteadyClock().now_ns();
    *end_ns = device_.reserve_compute(now_ns - ended_ns_ < kSoonNs ? now_ns - late_ns_ : now_ns, duration_ns);
  });
  issue();
  cpu_stream->enqueue([this, end_ns] {
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(*end_ns)));
    ended_ns_ = SteadyClock().now_ns();
    late_ns_ = std::min(ended_ns_ - *end_ns, kLateNsMax);
  });
}

void PacedOps::linear(Stream& stream, const LinearArgs& args) {
  pace(stream, 2 * args.x.dim(0) * args.weight->n * args.weight->k, [&] { inner().linear(stream, args); });
}

void PacedOps::attention(Stream& stream, const AttentionArgs& args) {
  int64_t pairs = 0;
  for (const AttentionSequence& sequence : args.sequences) {
    int64_t context = 0;
    for (const KvExtent& extent : sequence.prefix) context += extent.tokens;
    pairs += sequence.tokens * (context + pace_.attention_keys) + int64_t{sequence.tokens} * (sequence.tokens + 1) / 2;
  }
  pace(stream, 4 * args.q.dim(1) * args.q.dim(2) * pairs, [&] { inner().attention(stream, args); });
}

void PacedOps::moe(Stream& stream, const MoeArgs& args) {
  const int64_t flops = args.ids.elements() * 6 * args.size.hidden * args.size.intermediate;
  pace(stream, flops, [&] { inner().moe(stream, args); });
}

void PacedOps::head(Stream& stream, const HeadArgs& args) {
  pace(stream, 2 * args.x.dim(0) * args.weight->n * args.weight->k, [&] { inner().head(stream, args); });
}

}  // namespace zp::cpu
