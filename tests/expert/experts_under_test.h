// Ranks whose experts are known bytes, on links that a test controls, and a compute stream that reads them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "zp/device/cpu/cpu_device.h"
#include "zp/device/factory.h"
#include "zp/expert/cluster.h"
#include "zp/expert/expert_store.h"
#include "zp/expert/placement.h"
#include "zp/model/expert_source.h"

namespace zp::test {

inline constexpr size_t kTestBlobBytes = 512;

/// What every byte of an expert's blob is.
inline std::byte blob_byte(ExpertId id) { return static_cast<std::byte>(1 + (id.layer * 37 + id.expert * 5) % 250); }

struct ClusterSpec {
  int32_t ranks = 2;
  int32_t layers = 6;
  int32_t experts = 7;
  Placing placing = Placing::kGathered;
  int64_t experts_a_rank = 0;  // kHybrid: room beyond the first layer
  LinkSpec peer_link = {};     // each rank has one like it
  LinkSpec host_link = {};
};

/// Devices, links and experts of all ranks.
class ClusterUnderTest final {
 public:
  explicit ClusterUnderTest(const ClusterSpec& spec) {
    ModelShape shape;
    shape.layers = spec.layers;
    shape.experts = spec.experts;
    shape.feed_forward.assign(static_cast<size_t>(spec.layers), FeedForward::kMoe);
    const Placement placement(
        shape, {.ranks = spec.ranks,
                .placing = spec.placing,
                .blob_bytes = kTestBlobBytes,
                .rank_bytes = static_cast<uint64_t>(spec.experts + spec.experts_a_rank) * kTestBlobBytes});
    const ExpertPacking packing{.blob_bytes = kTestBlobBytes,
                                .read =
                                    [](ExpertId id, std::span<std::byte> blob) {
                                      std::memset(blob.data(), std::to_integer<int>(blob_byte(id)), blob.size());
                                    },
                                .threads = 1};
    std::vector<std::shared_ptr<const ExpertPeer>> shards;
    for (int32_t r = 0; r < spec.ranks; ++r) {
      const auto link = [r](LinkSpec link_spec, const char* kind) {
        link_spec.name = std::string("the ") + kind + " link of rank " + std::to_string(r);
        return std::make_shared<Link>(link_spec);
      };
      peer_links_.push_back(link(spec.peer_link, "peer"));
      host_links_.push_back(link(spec.host_link, "host"));
      devices_.push_back(make_device({.kind = DeviceKind::kCpu,
                                      .index = r,
                                      .threads = 1,
                                      .peer_link = peer_links_.back(),
                                      .host_link = host_links_.back()}));
      shards.push_back(
          std::make_shared<ExpertStore>(*devices_.back(), MemoryKind::kDevice, placement.experts_on(r), packing));
    }
    auto host =
        std::make_shared<ExpertStore>(*devices_.back(), MemoryKind::kPinnedHost, placement.experts_on_host(), packing);
    cluster_ = std::make_unique<ExpertCluster>(
        ExpertCluster::Parts{placement, kTestBlobBytes, std::move(shards), std::move(host)});
  }

  [[nodiscard]] const ExpertCluster& cluster() const { return *cluster_; }
  [[nodiscard]] Device& device(int32_t rank) { return *devices_.at(static_cast<size_t>(rank)); }
  [[nodiscard]] Link& peer_link(int32_t rank) { return *peer_links_.at(static_cast<size_t>(rank)); }
  [[nodiscard]] Link& host_link(int32_t rank) { return *host_links_.at(static_cast<size_t>(rank)); }

 private:
  std::vector<std::shared_ptr<Link>> peer_links_;
  std::vector<std::shared_ptr<Link>> host_links_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<ExpertCluster> cluster_;
};

/// Stands for a rank's forward pass: acquires, reads and releases the experts of one layer after another.
class ReaderUnderTest final {
 public:
  ReaderUnderTest(const ExpertCluster& cluster, Device& device, ExpertSource& source)
      : cluster_(cluster), source_(source), compute_(device.create_stream("compute")) {}

  /// Issues a step. Each layer computes for `layer_time`, and reads its experts at the beginning and the end of that.
  void issue_step(std::chrono::microseconds layer_time = {}) {
    for (int32_t l = 0; l < cluster_.placement().layers(); ++l) issue_layer(l, layer_time);
  }
  void issue_layer(int32_t layer, std::chrono::microseconds layer_time = {}) {
    const auto experts = source_.acquire(layer, *compute_);
    enqueue([this, layer, experts, layer_time] {
      read(layer, experts);
      if (layer_time.count() > 0) {
        std::this_thread::sleep_for(layer_time);
        read(layer, experts);
      }
    });
    source_.release(layer, *compute_);
  }
  /// Waits for what was issued; the experts that did not have their bytes so far.
  int64_t wrong_experts() {
    compute_->synchronize();
    return wrong_;
  }
  [[nodiscard]] Stream& compute() { return *compute_; }
  void enqueue(std::function<void()> act) { dynamic_cast<cpu::CpuStream&>(*compute_).enqueue(std::move(act)); }

 private:
  // On the stream's thread.
  void read(int32_t layer, std::span<const std::byte* const> experts) {
    for (size_t e = 0; e < experts.size(); ++e) {
      const std::byte expected = blob_byte({layer, static_cast<int32_t>(e)});
      for (size_t i = 0; i < kTestBlobBytes; ++i)
        if (experts[e][i] != expected) {
          ++wrong_;
          break;
        }
    }
  }

  const ExpertCluster& cluster_;
  ExpertSource& source_;
  int64_t wrong_ = 0;  // the stream's thread; read after synchronizing
  std::unique_ptr<Stream> compute_;
};

}  // namespace zp::test
