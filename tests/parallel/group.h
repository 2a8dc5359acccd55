// Threads of a group of virtual ranks, each with a stream, for tests of what they do together.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "zp/device/factory.h"
#include "zp/parallel/collectives.h"

namespace zp::test {

class GroupUnderTest final {
 public:
  explicit GroupUnderTest(const CollectivesSpec& spec) : collectives_(make_collectives(spec)) {
    for (int32_t r = 0; r < spec.ranks; ++r) {
      devices_.push_back(make_device({.kind = DeviceKind::kCpu, .index = r, .threads = 1}));
      streams_.push_back(devices_.back()->create_stream("rank " + std::to_string(r)));
    }
  }

  [[nodiscard]] int32_t ranks() const { return static_cast<int32_t>(collectives_.size()); }
  [[nodiscard]] Collectives& collectives(int32_t rank) { return *collectives_[static_cast<size_t>(rank)]; }
  [[nodiscard]] Stream& stream(int32_t rank) { return *streams_[static_cast<size_t>(rank)]; }

  /// Runs body(rank) on a thread for each rank, then waits for all streams. What each rank threw, or "".
  std::vector<std::string> run(const std::function<void(int32_t)>& body) {
    std::vector<std::string> thrown(collectives_.size());
    std::vector<std::thread> threads;
    for (int32_t r = 0; r < ranks(); ++r) {
      threads.emplace_back([&, r] {
        try {
          body(r);
          stream(r).synchronize();
        } catch (const std::exception& error) {
          thrown[static_cast<size_t>(r)] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return thrown;
  }

 private:
  std::vector<std::unique_ptr<Collectives>> collectives_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace zp::test
