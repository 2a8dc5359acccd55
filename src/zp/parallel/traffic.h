// How many bytes a rank's collectives move, by layer, and how long they take.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace zp {

enum class CollectiveKind : uint8_t { kAllGather, kReduceScatter, kAllReduce, kAllToAll, kSendReceive };
inline constexpr size_t kCollectiveKinds = 5;
/// "all_gather".
[[nodiscard]] std::string_view to_string(CollectiveKind kind) noexcept;

/// What is moved. Table 1 of the paper counts activations; what steers them (expert ids) is counted apart.
enum class TrafficUse : uint8_t { kActivations, kControl };

/// What a collective is counted to.
struct TrafficTag {
  int32_t layer = 0;
  TrafficUse use = TrafficUse::kActivations;
};

/// Bytes that cross a rank's link in each direction.
struct TrafficBytes {
  uint64_t sent = 0;
  uint64_t received = 0;
  [[nodiscard]] uint64_t larger() const noexcept { return sent > received ? sent : received; }
  friend bool operator==(const TrafficBytes&, const TrafficBytes&) = default;
};

struct TrafficCount {
  int64_t calls = 0;
  TrafficBytes bytes;
  int64_t total_ns = 0;  ///< in collectives
  int64_t wait_ns = 0;   ///< of these, until the last rank came

  TrafficCount& operator+=(const TrafficCount& other) noexcept;
};

// Bytes of ring collectives, where `parts` are the bytes of each rank's part. A ring passes each part on by one rank a
// step, so an all-gather sends all parts but the next rank's own (which that rank has) and receives all but its own; a
// reduce-scatter sends all but its own (which it ends with) and receives all but the previous rank's. An all-reduce is
// both, one after the other. With equal parts each is (P - 1) / P of the whole, twice that for an all-reduce.
[[nodiscard]] TrafficBytes ring_all_gather(std::span<const uint64_t> parts, int32_t rank);
[[nodiscard]] TrafficBytes ring_reduce_scatter(std::span<const uint64_t> parts, int32_t rank);
[[nodiscard]] TrafficBytes ring_all_reduce(std::span<const uint64_t> parts, int32_t rank);

/// The counts of one rank. Its stream's thread adds; any thread reads.
class TrafficLog final {
 public:
  explicit TrafficLog(int32_t layers) : layers_(static_cast<size_t>(layers)) {}

  void add(CollectiveKind kind, const TrafficTag& tag, const TrafficCount& count);
  [[nodiscard]] TrafficCount count(int32_t layer, CollectiveKind kind, TrafficUse use) const;
  /// All kinds and layers.
  [[nodiscard]] TrafficCount total(TrafficUse use) const;
  [[nodiscard]] int32_t layers() const noexcept { return static_cast<int32_t>(layers_.size()); }

 private:
  using Layer = std::array<std::array<TrafficCount, 2>, kCollectiveKinds>;  // [kind][use]
  mutable std::mutex mutex_;
  std::vector<Layer> layers_;  // guarded by mutex_
};

}  // namespace zp
