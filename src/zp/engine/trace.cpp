// Writes trace events (the "JSON Array Format" of Chrome's trace event format, inside an object).
#include "zp/engine/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace zp {
namespace {

constexpr std::array<std::string_view, 7> kLanes = {"compute", "waits", "gather",    "host",
                                                    "serve",   "steps", "own window"};

}  // namespace

std::string format_trace(std::span<const std::vector<Span>> ranks) {
  int64_t origin_ns = INT64_MAX;
  for (const auto& spans : ranks)
    for (const Span& span : spans) origin_ns = std::min(origin_ns, span.begin_ns);
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const auto us = [](int64_t ns) { return static_cast<double>(ns) * 1e-3; };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    text += fmt::format("{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_name\",\"args\":{{\"name\":\"rank {0}\"}}}},\n",
                        rank);
    for (size_t lane = 0; lane < kLanes.size(); ++lane)
      text +=
          fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}}},\n",
                      rank, lane, kLanes[lane]);
    // Names are ours ("gather 3"), so they need no escaping.
    for (const Span& span : ranks[rank])
      text += fmt::format("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"ts\":{:.3f},\"dur\":{:.3f}}},\n",
                          rank, static_cast<int>(span.lane), span.name, us(span.begin_ns - origin_ns),
                          us(span.end_ns - span.begin_ns));
  }
  // Every event above ends with a comma, which JSON does not allow after the last one.
  if (text.ends_with(",\n")) text.resize(text.size() - 2);
  return text + "\n]}\n";
}

}  // namespace zp
