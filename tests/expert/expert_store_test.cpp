// Experts that are drawn where they are to lie, in device memory and by way of it in the host's.
#include "zp/expert/expert_store.h"

#include <gtest/gtest.h>

#include <algorithm>

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
