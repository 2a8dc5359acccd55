// Orders, lengths and reuse of a workload.
#include "zp/simulate/workload.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <utility>

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

Workload take_share(const Workload& workload, double share) {
  ZP_CHECK(share > 0 && share <= 1, "a share of {}", share);
  // A prefix that fewer requests than this share is kept with all of them, or not at all.
  constexpr double kOfGroupMin = 16;
  // Requests by part and first text; those without a text to share are a group of their part.
  using Groups = std::map<uint64_t, std::vector<size_t>>;
  std::map<int32_t, Groups> parts;
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    const WorkRequest& request = workload.requests[i];
    parts[request.part][request.pieces.size() > 1 ? request.pieces.front().text : UINT64_MAX].push_back(i);
  }
  const auto rounded = [](double value, size_t most) {
    return std::clamp(static_cast<size_t>(std::llround(value)), size_t{1}, most);
  };
  std::vector<size_t> taken;
  for (const auto& [part, groups] : parts) {
    size_t requests = 0;
    for (const auto& [text, members] : groups) requests += members.size();
    const double wanted = share * static_cast<double>(requests);
    const double group = static_cast<double>(requests) / static_cast<double>(groups.size());
    const size_t kept_groups = rounded(wanted / std::min(group, kOfGroupMin), groups.size());
    size_t number = 0;
    for (const auto& [text, members] : groups) {
      // Of n things the k-th of m evenly spaced ones is the first with number >= k * n / m.
      const size_t k = (number * kept_groups + groups.size() - 1) / groups.size();
      if (k * groups.size() / kept_groups != number++ || k >= kept_groups) continue;
      const size_t kept = rounded(wanted / static_cast<double>(kept_groups), members.size());
      for (size_t m = 0; m < kept; ++m) taken.push_back(members[m * members.size() / kept]);
    }
  }
  std::ranges::sort(taken);
  Workload some{.name = workload.name, .parts = workload.parts, .requests = {}, .timed = workload.timed};
  for (const size_t index : taken) some.requests.push_back(workload.requests[index]);
  return some;
}

void arrive_at_once(Workload& workload) {
  for (WorkRequest& request : workload.requests) request.arrival_ns = 0;
  workload.timed = false;
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
