// Adds up, prints and enforces memory plans.
#include "zp/engine/memory_plan.h"

#include <fmt/format.h>

#include "zp/base/error.h"
#include "zp/base/human.h"

namespace zp {
namespace {

uint64_t missing_bytes(const MemoryPlan& plan) noexcept {
  const uint64_t total = plan.total_bytes();
  return total > plan.limit_bytes ? total - plan.limit_bytes : 0;
}

std::string table(const MemoryPlan& plan) {
  std::string text;
  for (const MemoryItem& item : plan.items)
    text += fmt::format("\n  {:<24}{:>12}", item.consumer, human_bytes(item.bytes));
  return text + fmt::format("\n  {:<24}{:>12} of {} ({})", "total", human_bytes(plan.total_bytes()),
                            human_bytes(plan.limit_bytes), plan.limit_source);
}

}  // namespace

uint64_t MemoryPlan::total_bytes() const noexcept {
  uint64_t total = 0;
  for (const MemoryItem& item : items) total += item.bytes;
  return total;
}

uint64_t EngineMemory::total_bytes() const noexcept {
  return static_cast<uint64_t>(ranks) * rank.total_bytes() + host.total_bytes();
}

std::string EngineMemory::to_text() const {
  const std::string whose = ranks == 1 ? "the rank" : fmt::format("each of {} ranks", ranks);
  return fmt::format("memory planned for {}:{}\nand once, in host memory:{}", whose, table(rank), table(host));
}

uint64_t left_bytes(const MemoryPlan& plan) noexcept {
  const uint64_t total = plan.total_bytes();
  return plan.limit_bytes > total ? plan.limit_bytes - total : 0;
}

void require_fits(const EngineMemory& memory, std::string_view advice) {
  const uint64_t missing =
      static_cast<uint64_t>(memory.ranks) * missing_bytes(memory.rank) + missing_bytes(memory.host);
  if (missing == 0) return;
  fail(ErrorCode::kOutOfMemory, "the model needs {} more than there is; {}\n{}", human_bytes(missing), memory.to_text(),
       advice);
}

}  // namespace zp
