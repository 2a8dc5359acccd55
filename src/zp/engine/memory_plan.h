// What a rank will allocate, by consumer, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zeroprefill/engine.h"

namespace zp {

/// Bytes by consumer, and the limit they must fit in.
struct MemoryPlan {
  std::vector<MemoryItem> items;
  uint64_t limit_bytes = 0;
  std::string limit_source;  ///< "the memory available on cpu:0", "memory_limit_bytes"

  [[nodiscard]] uint64_t total_bytes() const noexcept;
  /// A table for people.
  [[nodiscard]] std::string to_text() const;
};

/// Throws kOutOfMemory with the whole plan, and `advice`, when it does not fit.
void require_fits(const MemoryPlan& plan, std::string_view advice);

}  // namespace zp
