// Where every expert lives: on which rank, or in host memory. Pure arithmetic, decided before anything is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zp/shape/model_shape.h"

namespace zp {

/// How experts are spread over the ranks and the host.
enum class Placing : uint8_t {
  kResident,  ///< every expert on every rank
  kGathered,  ///< each on one rank
  kHost,      ///< each in host memory
  kHybrid,    ///< each on one rank as far as rank_bytes goes, the others in host memory
  kAuto,      ///< kResident if that fits into rank_bytes, else kHybrid
};

struct PlacementSpec {
  int32_t ranks = 1;
  Placing placing = Placing::kResident;
  size_t blob_bytes = 0;
  uint64_t rank_bytes = 0;  ///< what a rank can hold of experts; only kHybrid and kAuto look at it
};

/// An expert of a layer.
struct ExpertId {
  int32_t layer = 0;
  int32_t expert = 0;
  friend bool operator==(const ExpertId&, const ExpertId&) = default;
};

/// Invariants: unless every expert is on every rank, the first MoE layer is complete on every rank, and each other
/// expert has one home. Homes of a layer differ by at most one in number from rank to rank, and so do those of all
/// layers; experts in host memory are spread over the layers as evenly. Immutable.
class Placement final {
 public:
  static constexpr int32_t kEverywhere = -1;
  static constexpr int32_t kHost = -2;

  /// Of a model without layers.
  Placement() = default;
  /// Throws kOutOfMemory with the numbers if not even the first MoE layer fits into rank_bytes (kHybrid, kAuto), and
  /// kInvalidArgument for fewer than one rank.
  Placement(const ModelShape& shape, const PlacementSpec& spec);

  [[nodiscard]] int32_t ranks() const noexcept { return ranks_; }
  [[nodiscard]] int32_t layers() const noexcept { return static_cast<int32_t>(homes_.size()); }
  [[nodiscard]] int32_t experts() const noexcept { return experts_; }
  /// A rank, kEverywhere or kHost.
  [[nodiscard]] int32_t home(ExpertId id) const;
  [[nodiscard]] bool on_rank(ExpertId id, int32_t rank) const;
  /// The rank whose host streamer brings an expert of the host to the ranks.
  [[nodiscard]] int32_t streamer(ExpertId id) const;
  /// Layers with an expert that some rank does not have, in rising order: those that are streamed.
  [[nodiscard]] std::span<const int32_t> streamed_layers() const noexcept { return streamed_; }
  [[nodiscard]] bool is_moe(int32_t layer) const { return !homes_.at(static_cast<size_t>(layer)).empty(); }

  /// All experts in a rank's memory or in the host's, by layer and number.
  [[nodiscard]] std::vector<ExpertId> experts_on(int32_t rank) const;
  [[nodiscard]] std::vector<ExpertId> experts_on_host() const;
  /// The most experts of one layer that a rank must bring in.
  [[nodiscard]] int32_t remote_max(int32_t rank) const;
  /// The most experts of one layer that a rank's host streamer brings in.
  [[nodiscard]] int32_t share_max(int32_t rank) const;
  /// What it came to: never kAuto, and kGathered or kResident rather than kHybrid if nothing is left to the host.
  [[nodiscard]] Placing placing() const noexcept { return placing_; }

 private:
  void place_streamed(int64_t resident_total);

  Placing placing_ = Placing::kResident;
  int32_t ranks_ = 1;
  int32_t experts_ = 0;
  std::vector<std::vector<int32_t>> homes_;      // [layers][E]; empty for a dense layer
  std::vector<std::vector<int32_t>> streamers_;  // [layers][E]; -1 where the home is not the host
  std::vector<int32_t> streamed_;
};

}  // namespace zp
