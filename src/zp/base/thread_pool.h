// How work is spread over cores: a fixed set of threads that share out a range of indices.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace zp {

/// Thread-safe: callers of parallel_for() take turns with the pool's threads. Indices are handed out dynamically, so
/// results must not depend on which thread runs an index. The calling thread works too.
class ThreadPool final {
 public:
  /// `threads` >= 1 counts the calling thread; `threads - 1` are started.
  explicit ThreadPool(int32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int32_t threads() const noexcept { return static_cast<int32_t>(workers_.size()) + 1; }

  /// Runs `body(index, thread)` for each index in [0, count); `thread` in [0, threads()) names the worker, for
  /// scratch memory. Blocks until all are done; rethrows the first exception after that.
  void parallel_for(int64_t count, const std::function<void(int64_t index, int32_t thread)>& body);

 private:
  struct Job;
  void work(int32_t thread);
  static void run(Job& job, int32_t thread);

  std::mutex turn_;  // held for as long as a caller has the threads
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;       // guarded by mutex_; points into parallel_for's frame
  uint64_t generation_ = 0;  // guarded by mutex_; counts jobs so that a worker takes each once
  int32_t active_ = 0;       // guarded by mutex_; workers inside the current job
  bool stopping_ = false;    // guarded by mutex_
  std::vector<std::thread> workers_;
};

}  // namespace zp
