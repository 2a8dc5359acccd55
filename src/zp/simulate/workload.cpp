// Orders, lengths and reuse of a workload.
#include "zp/simulate/workload.h"

#include <algorithm>
#include <unordered_set>

#include "zp/base/check.h"
#include "zp/cache/block_hash.h"
#include "zp/simulate/random.h"

namespace zp {
namespace {

constexpr std::string_view kNamespace = "simulation";

struct LowHalf {
  size_t operator()(const BlockHash& hash) const noexcept { return hash.lo; }
};

}  // namespace

int64_t WorkRequest::tokens() const noexcept {
  int64_t sum = 0;
  for (const TextPiece& piece : pieces) sum += piece.count;
  return sum;
}

std::vector<int32_t> WorkRequest::token_ids() const {
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(tokens()));
  for (const TextPiece& piece : pieces) {
    const uint64_t text = mixed_bits(piece.text);
    for (int32_t i = 0; i < piece.count; ++i)
      ids.push_back(static_cast<int32_t>(mixed_bits(text + static_cast<uint64_t>(piece.offset + i)) >> 33));
  }
  return ids;
}

int64_t Workload::tokens() const noexcept {
  int64_t sum = 0;
  for (const WorkRequest& request : requests) sum += request.tokens();
  return sum;
}

int64_t Workload::tokens_max() const noexcept {
  int64_t most = 0;
  for (const WorkRequest& request : requests) most = std::max(most, request.tokens());
  return most;
}

void shuffle(Workload& workload, uint64_t seed) {
  Random random(seed);
  std::vector<WorkRequest>& requests = workload.requests;
  for (size_t i = requests.size(); i > 1; --i) {
    ZP_CHECK(requests[i - 1].arrival_ns == 0, "request {} arrives at {} ns", i - 1, requests[i - 1].arrival_ns);
    std::swap(requests[i - 1], requests[static_cast<size_t>(random.between(0, static_cast<int64_t>(i) - 1))]);
  }
}

void remove_sharing(Workload& workload) {
  // Far from the numbers that workloads give their own texts.
  uint64_t text = uint64_t{1} << 62;
  for (WorkRequest& request : workload.requests)
    request.pieces = {{.text = text++, .offset = 0, .count = static_cast<int32_t>(request.tokens())}};
}

void arrive_at_once(Workload& workload) {
  for (WorkRequest& request : workload.requests) request.arrival_ns = 0;
}

int64_t reusable_tokens(const Workload& workload) {
  std::unordered_set<BlockHash, LowHalf> seen;
  int64_t saved = 0;
  for (const WorkRequest& request : workload.requests) {
    const std::vector<int32_t> ids = request.token_ids();
    const BlockChain chain(kNamespace, ids);
    const auto most = (static_cast<int64_t>(ids.size()) - 1) / kBlockTokens;
    int64_t blocks = 0;
    for (const BlockHash& hash : chain.hashes()) {
      if (!seen.contains(hash)) break;
      ++blocks;
    }
    saved += std::min(blocks, most) * kBlockTokens;
    seen.insert(chain.hashes().begin(), chain.hashes().end());
  }
  return saved;
}

}  // namespace zp
