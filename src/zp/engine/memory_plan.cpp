// Adds up, prints and enforces memory plans.
#include "zp/engine/memory_plan.h"

#include <fmt/format.h>

#include "zp/base/error.h"

namespace zp {

uint64_t MemoryPlan::total_bytes() const noexcept {
  uint64_t total = 0;
  for (const MemoryItem& item : items) total += item.bytes;
  return total;
}

std::string MemoryPlan::to_text() const {
  std::string text;
  for (const MemoryItem& item : items) text += fmt::format("  {:<24}{:>12}\n", item.consumer, human_bytes(item.bytes));
  text += fmt::format("  {:<24}{:>12}\n", "total", human_bytes(total_bytes()));
  return text + fmt::format("  {:<24}{:>12}  ({})", "limit", human_bytes(limit_bytes), limit_source);
}

void require_fits(const MemoryPlan& plan) {
  if (plan.total_bytes() <= plan.limit_bytes) return;
  fail(ErrorCode::kOutOfMemory, "the model needs {} more than there is:\n{}",
       human_bytes(plan.total_bytes() - plan.limit_bytes), plan.to_text());
}

std::string human_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace zp
