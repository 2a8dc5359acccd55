// A device that says it is a GPU, for what depends on the kind of device alone.
#pragma once

#include <memory>
#include <string>

#include "zp/device/device.h"

namespace zp::test {

/// Has neither memory nor streams.
class FakeGpu final : public Device {
 public:
  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::kCuda; }
  [[nodiscard]] std::string description() const override { return "no GPU"; }
  [[nodiscard]] MemoryInfo memory_info() const override { return {}; }
  [[nodiscard]] Buffer allocate(size_t /*size_bytes*/, MemoryKind /*kind*/) override { return {}; }
  [[nodiscard]] std::unique_ptr<Stream> create_stream(std::string /*name*/, StreamUse /*use*/) override { return {}; }
  void reach_memory_of(Device& /*other*/) override {}

 private:
  void release(std::byte* /*data*/, size_t /*size_bytes*/, MemoryKind /*kind*/) noexcept override {}
};

}  // namespace zp::test
