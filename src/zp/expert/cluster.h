// All places where experts live, as one rank sees them: the placement, and where each peer's blobs are.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "zp/base/check.h"
#include "zp/expert/expert_store.h"
#include "zp/expert/placement.h"

namespace zp {

/// Made once every rank has loaded its experts, so whoever holds a cluster may read from all of it. Immutable; outlives
/// the ranks, whose streams copy from it until they end.
class ExpertCluster final {
 public:
  struct Parts {
    Placement placement;
    size_t blob_bytes = 0;
    std::vector<std::shared_ptr<const ExpertPeer>> ranks;  ///< [ranks]
    std::shared_ptr<const ExpertPeer> host;                ///< null if no expert lives there
  };
  explicit ExpertCluster(Parts parts) : parts_(std::move(parts)) {
    ZP_CHECK(static_cast<int32_t>(parts_.ranks.size()) == parts_.placement.ranks(), "{} shards for {} ranks",
             parts_.ranks.size(), parts_.placement.ranks());
  }

  [[nodiscard]] const Placement& placement() const noexcept { return parts_.placement; }
  [[nodiscard]] size_t blob_bytes() const noexcept { return parts_.blob_bytes; }
  /// Where `rank` reads an expert from: its own memory if the expert is there, else the expert's home.
  [[nodiscard]] const std::byte* address(ExpertId id, int32_t rank) const {
    const int32_t home = parts_.placement.home(id);
    return address_on(home == Placement::kEverywhere ? rank : home, id);
  }
  /// Where a rank, or the host (Placement::kHost), has an expert that it must have.
  [[nodiscard]] const std::byte* address_on(int32_t from, ExpertId id) const {
    const ExpertPeer* peer =
        from == Placement::kHost ? parts_.host.get() : parts_.ranks.at(static_cast<size_t>(from)).get();
    const std::byte* blob = peer == nullptr ? nullptr : peer->address(id);
    ZP_CHECK(blob != nullptr, "expert {} of layer {} is not where the placement has it ({})", id.expert, id.layer,
             from);
    return blob;
  }

  /// [layers][E] where `rank` has each expert in its own memory, null where it does not; empty for a dense layer.
  [[nodiscard]] std::vector<std::vector<const std::byte*>> local_experts(int32_t rank) const {
    const Placement& p = placement();
    std::vector<std::vector<const std::byte*>> layers(static_cast<size_t>(p.layers()));
    for (int32_t l = 0; l < p.layers(); ++l)
      for (int32_t e = 0; p.is_moe(l) && e < p.experts(); ++e)
        layers[static_cast<size_t>(l)].push_back(p.on_rank({l, e}, rank) ? address({l, e}, rank) : nullptr);
    return layers;
  }

 private:
  Parts parts_;
};

}  // namespace zp
