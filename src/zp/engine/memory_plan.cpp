// Adds up, prints and enforces memory plans.
#include "zp/engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "zp/base/error.h"
#include "zp/base/host_info.h"
#include "zp/base/human.h"
#include "zp/cache/block_hash.h"
#include "zp/engine/intake.h"
#include "zp/engine/setup.h"
#include "zp/engine/source.h"
#include "zp/ops/factory.h"
#include "zp/tokenizer/tokenizer.h"

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

// Unless told otherwise, keys and values get room for this many tokens, within these bytes and half of what is left.
constexpr int64_t kDefaultKvTokens = 65536;
constexpr uint64_t kDefaultKvBytesMin = uint64_t{256} << 20;

// Bytes of a rank for kept keys and values, given what else its plan has.
uint64_t kv_bytes(const EngineConfig& config, const MemoryPlan& plan, size_t block_bytes) {
  if (config.kv_cache_bytes) return *config.kv_cache_bytes;
  const uint64_t wanted = static_cast<uint64_t>(kDefaultKvTokens / kBlockTokens) * block_bytes;
  return std::min(left_bytes(plan) / 2, std::clamp(wanted, kDefaultKvBytesMin, kDefaultKvBytesMax));
}

// What unanswered requests take, results included. The last one may be as large as a request can be.
uint64_t pending_bytes(const EngineConfig& config, int64_t max_request_tokens) {
  const uint64_t largest = request_bytes(max_request_tokens, kCandidatesMax);
  return std::min(static_cast<uint64_t>(config.max_pending_requests) * largest, config.max_pending_bytes + largest);
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
  return fmt::format("memory planned for {}:{}\nand once, in host memory:{}{}{}", whose, table(rank), table(host),
                     note.empty() ? "" : "\n", note);
}

uint64_t left_bytes(const MemoryPlan& plan) noexcept {
  const uint64_t total = plan.total_bytes();
  return plan.limit_bytes > total ? plan.limit_bytes - total : 0;
}

bool fits(const EngineMemory& memory) noexcept {
  return missing_bytes(memory.rank) == 0 && missing_bytes(memory.host) == 0;
}

void require_fits(const EngineMemory& memory, std::string_view advice) {
  if (fits(memory)) return;
  const uint64_t missing =
      static_cast<uint64_t>(memory.ranks) * missing_bytes(memory.rank) + missing_bytes(memory.host);
  fail(ErrorCode::kOutOfMemory, "the model needs {} more than there is; {}\n{}", human_bytes(missing), memory.to_text(),
       advice);
}

std::vector<MemoryItem> host_items(const EngineConfig& config, int64_t max_request_tokens) {
  const std::filesystem::path tokenizer = tokenizer_folder(config);
  return {{"tokenizer", tokenizer.empty() ? 0 : Tokenizer::memory_bytes_max(tokenizer)},
          {"pending requests", pending_bytes(config, max_request_tokens)}};
}

void plan_metadata(const Device& device, int32_t ops_objects, MemoryPlan& host) {
  if (const uint64_t each = ops_pinned_bytes(device); each > 0)
    host.items.push_back({"metadata of operations", each * static_cast<uint64_t>(ops_objects)});
}

void set_limits(const EngineConfig& config, const Device& device, EngineMemory& memory) {
  memory.rank.limit_bytes = config.memory_limit_bytes.value_or(device.memory_info().free_bytes);
  memory.rank.limit_source = config.memory_limit_bytes ? "the given memory limit" : "free on " + device.description();
  if (device.kind() != DeviceKind::kCpu) {
    memory.host.limit_bytes = host_memory().available_bytes;
    memory.host.limit_source = "available in host memory";
    return;
  }
  memory.host.limit_bytes = memory.rank.limit_bytes;
  memory.host.limit_source = memory.rank.limit_source;
  memory.rank.limit_bytes = left_bytes(memory.host) / static_cast<uint64_t>(config.ranks);
  memory.rank.limit_source = fmt::format("{}{}, less what is planned for the host",
                                         config.ranks == 1 ? "" : fmt::format("for each of {} ranks: ", config.ranks),
                                         memory.host.limit_source);
}

int32_t plan_kv_blocks(const EngineConfig& config, size_t block_bytes, MemoryPlan& plan) {
  const auto blocks =
      static_cast<int32_t>(std::min<uint64_t>(kv_bytes(config, plan, block_bytes) / block_bytes, INT32_MAX / 2));
  plan.items.push_back({"kept keys and values", static_cast<uint64_t>(blocks) * block_bytes});
  return blocks;
}

}  // namespace zp
