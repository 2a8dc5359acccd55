// Adds up, prints and enforces memory plans.
#include "zp/engine/memory_plan.h"

#include <fmt/format.h>

#include "zp/base/error.h"
#include "zp/base/human.h"

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

void require_fits(const MemoryPlan& plan, std::string_view advice) {
  if (plan.total_bytes() <= plan.limit_bytes) return;
  fail(ErrorCode::kOutOfMemory, "the model needs {} more than there is:\n{}\n{}",
       human_bytes(plan.total_bytes() - plan.limit_bytes), plan.to_text(), advice);
}

}  // namespace zp
