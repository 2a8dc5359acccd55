// Experts that are drawn where they are to lie, in device memory and by way of it in the host's.
#include "zp/expert/expert_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "zp/device/factory.h"

namespace zp {
namespace {

constexpr size_t kBlobBytes = 256;

std::byte mark_of(ExpertId id) { return static_cast<std::byte>(id.layer * 100 + id.expert); }

// More experts of a layer than are drawn at a time, and a layer with few.
std::vector<ExpertId> many_experts() {
  std::vector<ExpertId> experts;
  for (int32_t e = 0; e < 41; ++e) experts.push_back({0, e});
  for (int32_t e = 3; e < 7; ++e) experts.push_back({2, e});
  return experts;
}

// The CPU's, but an allocation of pinned memory returns only once another one has begun.
class SociableDevice final : public Device {
 public:
  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::kCpu; }
  [[nodiscard]] std::string description() const override { return "a device made up"; }
  [[nodiscard]] MemoryInfo memory_info() const override { return {}; }
  [[nodiscard]] Buffer allocate(size_t size_bytes, MemoryKind kind) override {
    {
      std::unique_lock lock(mutex_);
      ++begun_;
      changed_.notify_all();
      sizes_.push_back(size_bytes);
      if (!changed_.wait_for(lock, std::chrono::seconds(10), [&] { return begun_ >= 2; })) alone_ = true;
    }
    return {this, kind, new std::byte[size_bytes], size_bytes};
  }
  [[nodiscard]] std::unique_ptr<Stream> create_stream(std::string name, StreamUse use) override {
    return cpu_->create_stream(std::move(name), use);
  }
  void reach_memory_of(Device& /*other*/) override {}
  [[nodiscard]] bool was_alone() const noexcept { return alone_; }
  /// Of all allocations, falling.
  [[nodiscard]] std::vector<size_t> sizes() {
    const std::lock_guard lock(mutex_);
    std::ranges::sort(sizes_, std::greater());
    return sizes_;
  }

 private:
  void release(std::byte* data, size_t /*size_bytes*/, MemoryKind /*kind*/) noexcept override { delete[] data; }

  std::unique_ptr<Device> cpu_ = make_device({.kind = DeviceKind::kCpu});
  std::mutex mutex_;
  std::condition_variable changed_;
  int32_t begun_ = 0;
  std::vector<size_t> sizes_;
  std::atomic<bool> alone_{false};
};

TEST(ExpertStore, PinsPartsWhileOthersArePinned) {
  SociableDevice device;
  const ExpertPacking packing{
      .blob_bytes = kBlobBytes,
      .read = [](ExpertId id, std::span<std::byte> blob) { std::ranges::fill(blob, mark_of(id)); },
      .threads = 2};
  const ExpertStore store(device, MemoryKind::kPinnedHost, many_experts(), packing);
  EXPECT_FALSE(device.was_alone());
  for (const ExpertId id : many_experts()) EXPECT_EQ(store.address(id)[kBlobBytes - 1], mark_of(id));
}

// A large registration would hold up whoever makes pages: parts are at most 256 MiB, of one layer, of whole experts.
TEST(ExpertStore, PinsALayerInParts) {
  constexpr size_t kLargeBlob = size_t{100} << 20;
  SociableDevice device;
  const std::vector<ExpertId> experts = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 0}, {1, 1}};
  const ExpertPacking packing{
      .blob_bytes = kLargeBlob,
      .read = [](ExpertId id, std::span<std::byte> blob) { blob.front() = blob.back() = mark_of(id); },
      .threads = 2};
  const ExpertStore store(device, MemoryKind::kPinnedHost, experts, packing);
  EXPECT_EQ(device.sizes(), (std::vector<size_t>{2 * kLargeBlob, 2 * kLargeBlob, 2 * kLargeBlob, kLargeBlob}));
  EXPECT_EQ(store.size_bytes(), experts.size() * kLargeBlob);
  for (const ExpertId id : experts) {
    EXPECT_EQ(store.address(id)[0], mark_of(id));
    EXPECT_EQ(store.address(id)[kLargeBlob - 1], mark_of(id));
  }
}

TEST(ExpertStore, DrawsEveryExpertInItsPlace) {
  const std::unique_ptr<Device> device = make_device({.kind = DeviceKind::kCpu});
  for (const MemoryKind memory : {MemoryKind::kDevice, MemoryKind::kPinnedHost}) {
    const ExpertPacking packing{
        .blob_bytes = kBlobBytes,
        .read = [](ExpertId, std::span<std::byte>) { ADD_FAILURE() << "is read though it can be drawn"; },
        .draw = [](ExpertId id, Stream& stream, std::byte* blob) { stream.fill(blob, mark_of(id), kBlobBytes); },
        .threads = 1};
    const ExpertStore store(*device, memory, many_experts(), packing);
    EXPECT_EQ(store.size_bytes(), many_experts().size() * kBlobBytes);
    for (const ExpertId id : many_experts()) {
      const std::byte* blob = store.address(id);
      ASSERT_NE(blob, nullptr);
      EXPECT_EQ(std::count(blob, blob + kBlobBytes, mark_of(id)), static_cast<std::ptrdiff_t>(kBlobBytes)) << id.expert;
    }
    EXPECT_EQ(store.address({1, 0}), nullptr);
  }
}

}  // namespace
}  // namespace zp
