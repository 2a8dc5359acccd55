// The CPU as a device: a stream is a thread with a queue, so the same asynchronous code runs here and on a GPU.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "zp/base/bounded_queue.h"
#include "zp/base/thread_pool.h"
#include "zp/device/factory.h"

namespace zp::cpu {

/// A point in a CpuStream's work. Set once, by the stream's thread.
class CpuEventState final : public EventState {
 public:
  [[nodiscard]] EventStatus status() const override;
  void wait() const override;
  [[nodiscard]] std::optional<int64_t> reached_ns() const override;
  /// Marks the point as reached (null) or failed; wakes all waiters. Called once.
  void set(std::exception_ptr failure);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  EventStatus status_ = EventStatus::kPending;  // guarded by mutex_
  std::exception_ptr failure_;                  // guarded by mutex_
  int64_t reached_ns_ = 0;                      // guarded by mutex_
};

/// Runs closures in order on its own thread. Issuing blocks while the queue is full (bounded memory).
class CpuStream final : public Stream {
 public:
  /// Copies go over `link`, unless it is null.
  explicit CpuStream(std::string name, std::shared_ptr<Link> link = nullptr);
  /// Runs what was issued, then ends the thread. Failures nobody synchronized on are dropped.
  ~CpuStream() override;

  void copy(void* destination, const void* source, size_t size_bytes) override;
  void copy_batch(std::span<const CopyRange> copies) override;
  void fill(void* destination, std::byte value, size_t size_bytes) override;
  void wait(const Event& event) override;
  void synchronize() override;
  /// Issues any act. An exception it throws poisons the stream.
  void enqueue(std::function<void()> act);

 protected:
  std::shared_ptr<const EventState> record_state(EventTiming timing) override;

 private:
  /// An act, or a point to mark: marks are set even on a poisoned stream, with its failure.
  struct Item {
    std::function<void()> act;
    std::shared_ptr<CpuEventState> mark;
  };
  void run();
  void move(const CopyRange& copy);

  static constexpr size_t kQueueItems = 1024;
  std::string name_;
  std::shared_ptr<Link> link_;
  BoundedQueue<Item> queue_{kQueueItems};
  std::exception_ptr failure_;  // the stream thread's own
  std::thread thread_;
};

/// Host memory and cores. The pool is shared by the device's streams, which take turns; copies need none.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceSpec& spec);
  CpuDevice(int32_t index, int32_t threads)
      : CpuDevice(DeviceSpec{
            .kind = DeviceKind::kCpu, .index = index, .threads = threads, .peer_link = nullptr, .host_link = nullptr}) {
  }

  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::kCpu; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] MemoryInfo memory_info() const override;
  [[nodiscard]] Buffer allocate(size_t size_bytes, MemoryKind kind) override;
  [[nodiscard]] std::unique_ptr<Stream> create_stream(std::string name, StreamUse use = StreamUse::kCompute) override;
  void reach_memory_of(Device& /*other*/) override {}
  [[nodiscard]] ThreadPool& pool() noexcept { return pool_; }
  [[nodiscard]] const ThreadPool& pool() const noexcept { return pool_; }
  /// For paced operations: reserves the modelled device for `duration_ns`, no earlier than `from_ns` and than what was
  /// reserved before ends; returns when it ends, on SteadyClock. So all streams share the modelled rate. Thread-safe.
  [[nodiscard]] int64_t reserve_compute(int64_t from_ns, int64_t duration_ns);

 private:
  void release(std::byte* data, size_t size_bytes, MemoryKind kind) noexcept override;

  int32_t index_;
  std::shared_ptr<Link> peer_link_;
  std::shared_ptr<Link> host_link_;
  ThreadPool pool_;
  std::mutex pace_mutex_;
  int64_t paced_until_ns_ = 0;  // guarded by pace_mutex_
};

}  // namespace zp::cpu
