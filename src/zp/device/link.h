// A link between virtual ranks, or from one to its host memory: how long a copy takes, and how it can go wrong.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "zp/device/device.h"

namespace zp {

/// What a link can do. Zero bandwidth and zero latency mean: as fast as memory is.
struct LinkSpec {
  std::string name = {};          ///< "the peer link of rank 2": errors name it
  uint64_t bytes_per_second = 0;  ///< shared by everything that goes over the link
  int64_t latency_ns = 0;         ///< before each copy's first byte
};

/// Thread-safe. Copies of several streams take turns, so that they share the bandwidth. Sleeps, never spins.
class Link final {
 public:
  explicit Link(LinkSpec spec) : spec_(std::move(spec)) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Copies, and returns when the link could have. Throws kDevice, naming the link, when the copy is to fail.
  /// The first half lands at the beginning and the rest at the end: whoever reads too early, or writes to memory that
  /// is still read, is found out.
  void transfer(const CopyRange& copy);

  /// From now on copies wait, until resume().
  void stall();
  void resume();
  /// The copy after `copies` further ones fails, and so does every later one.
  void fail_after(int64_t copies);

  [[nodiscard]] const std::string& name() const noexcept { return spec_.name; }
  /// What has gone over it so far.
  struct Counts {
    int64_t copies = 0;
    uint64_t bytes = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  [[nodiscard]] int64_t reserve(size_t size_bytes);

  const LinkSpec spec_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stalled_ = false;                // guarded by mutex_
  std::optional<int64_t> fails_after_;  // guarded by mutex_; copies that still succeed
  int64_t busy_until_ns_ = 0;           // guarded by mutex_
  Counts counts_;                       // guarded by mutex_
};

}  // namespace zp
