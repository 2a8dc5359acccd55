// What the benchmarks of scheduling have in common: a model, made-up texts, and requests of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zp/cache/block_hash.h"
#include "zp/schedule/request.h"
#include "zp/shape/known_models.h"

namespace zp::bench {

inline constexpr std::string_view kNamespace = "bench";

inline const ModelShape& shape() { return find_known_model("Qwen3-30B-A3B")->shape; }

/// Streams below 100,000 share no block as long as a text has at most 1,250 of them.
inline std::vector<int32_t> text(int32_t stream, int32_t blocks) {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(blocks) * kBlockTokens);
  for (int32_t i = 0; i < blocks * kBlockTokens; ++i) tokens.push_back(stream * 20'011 + i);
  return tokens;
}

inline ScheduleRequest request_of(uint64_t id, std::vector<int32_t> tokens) {
  BlockChain chain(kNamespace, tokens);
  return {.id = id,
          .tokens = std::move(tokens),
          .cache_namespace = std::string(kNamespace),
          .chain = std::move(chain),
          .deadline_ns = {}};
}

}  // namespace zp::bench
