// Spreads experts evenly.
#include "zp/expert/placement.h"

#include <algorithm>

#include "zp/base/check.h"
#include "zp/base/error.h"

namespace zp {
namespace {

constexpr int32_t kNobody = -1;

// Experts that all ranks together can hold beyond the first MoE layer, which each of them has.
int64_t resident_total(const PlacementSpec& spec, int64_t experts, int64_t streamed_layers) {
  const int64_t all = experts * streamed_layers;
  if (spec.placing == Placing::kGathered) return all;
  if (spec.placing == Placing::kHost) return 0;
  const uint64_t first = static_cast<uint64_t>(experts) * spec.blob_bytes;
  if (first > spec.rank_bytes)
    fail(ErrorCode::kOutOfMemory,
         "a rank has {} bytes for experts; the first layer of experts, which every rank holds, takes {}",
         spec.rank_bytes, first);
  const auto each = static_cast<int64_t>((spec.rank_bytes - first) / spec.blob_bytes);
  return std::min(all, each * spec.ranks);
}

bool fits_everywhere(const PlacementSpec& spec, int64_t experts, int64_t moe_layers) {
  return static_cast<uint64_t>(experts * moe_layers) * spec.blob_bytes <= spec.rank_bytes;
}

}  // namespace

Placement::Placement(const ModelShape& shape, const PlacementSpec& spec) : ranks_(spec.ranks), experts_(shape.experts) {
  if (spec.ranks < 1) fail(ErrorCode::kInvalidArgument, "ranks is {}; it must be at least 1", spec.ranks);
  ZP_CHECK(spec.blob_bytes > 0 || shape.moe_layers() == 0, "experts of {} bytes", spec.blob_bytes);
  homes_.resize(static_cast<size_t>(shape.layers));
  streamers_.resize(homes_.size());
  const bool everywhere = spec.placing == Placing::kResident ||
                          (spec.placing == Placing::kAuto && fits_everywhere(spec, experts_, shape.moe_layers()));
  bool first = true;
  for (int32_t l = 0; l < shape.layers; ++l) {
    if (shape.feed_forward[static_cast<size_t>(l)] != FeedForward::kMoe) continue;
    homes_[static_cast<size_t>(l)].assign(static_cast<size_t>(experts_), kEverywhere);
    streamers_[static_cast<size_t>(l)].assign(static_cast<size_t>(experts_), kNobody);
    if (!first && !everywhere) streamed_.push_back(l);
    first = false;
  }
  if (streamed_.empty()) return;
  placing_ = spec.placing;
  const int64_t all = int64_t{experts_} * static_cast<int64_t>(streamed_.size());
  const int64_t resident = resident_total(spec, experts_, static_cast<int64_t>(streamed_.size()));
  if (placing_ == Placing::kAuto) placing_ = Placing::kHybrid;
  if (placing_ == Placing::kHybrid && resident == all) placing_ = Placing::kGathered;
  place_streamed(resident);
  if (ranks_ > 1) return;
  // A single rank streams only what lies in host memory.
  std::erase_if(streamed_,
                [this](int32_t l) { return std::ranges::count(homes_[static_cast<size_t>(l)], kHost) == 0; });
  if (streamed_.empty()) placing_ = Placing::kResident;
}

// Ranks take experts in turn, going on from layer to layer, so that neither a layer nor the whole is uneven.
void Placement::place_streamed(int64_t resident_total) {
  const auto layers = static_cast<int64_t>(streamed_.size());
  int64_t placed = 0;
  int64_t streamed = 0;
  for (int64_t i = 0; i < layers; ++i) {
    const auto l = static_cast<size_t>(streamed_[static_cast<size_t>(i)]);
    // Differences of rounded multiples: each layer gets the same number, give or take one.
    const int64_t resident = resident_total * (i + 1) / layers - resident_total * i / layers;
    for (int64_t e = 0; e < experts_; ++e) {
      // The resident experts of a layer lie evenly among its experts.
      const bool on_rank = resident * (e + 1) / experts_ > resident * e / experts_;
      if (on_rank) {
        homes_[l][static_cast<size_t>(e)] = static_cast<int32_t>(placed++ % ranks_);
      } else {
        homes_[l][static_cast<size_t>(e)] = kHost;
        streamers_[l][static_cast<size_t>(e)] = static_cast<int32_t>(streamed++ % ranks_);
      }
    }
  }
}

int32_t Placement::home(ExpertId id) const {
  return homes_.at(static_cast<size_t>(id.layer)).at(static_cast<size_t>(id.expert));
}

bool Placement::on_rank(ExpertId id, int32_t rank) const {
  const int32_t at = home(id);
  return at == kEverywhere || at == rank;
}

int32_t Placement::streamer(ExpertId id) const {
  return streamers_.at(static_cast<size_t>(id.layer)).at(static_cast<size_t>(id.expert));
}

std::vector<ExpertId> Placement::experts_on(int32_t rank) const {
  std::vector<ExpertId> found;
  for (int32_t l = 0; l < layers(); ++l)
    for (int32_t e = 0; is_moe(l) && e < experts_; ++e)
      if (on_rank({l, e}, rank)) found.push_back({l, e});
  return found;
}

std::vector<ExpertId> Placement::experts_on_host() const {
  std::vector<ExpertId> found;
  for (const int32_t l : streamed_)
    for (int32_t e = 0; e < experts_; ++e)
      if (home({l, e}) == kHost) found.push_back({l, e});
  return found;
}

int32_t Placement::remote_max(int32_t rank) const {
  int32_t most = 0;
  for (const int32_t l : streamed_) {
    int32_t remote = 0;
    for (int32_t e = 0; e < experts_; ++e) remote += on_rank({l, e}, rank) ? 0 : 1;
    most = std::max(most, remote);
  }
  return most;
}

int32_t Placement::share_max(int32_t rank) const {
  int32_t most = 0;
  for (const int32_t l : streamed_)
    most = std::max(most, static_cast<int32_t>(std::ranges::count(streamers_[static_cast<size_t>(l)], rank)));
  return most;
}

}  // namespace zp
