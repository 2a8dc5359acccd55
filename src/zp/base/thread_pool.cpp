// A fixed set of threads that share out a range of indices.
#include "zp/base/thread_pool.h"

#include <atomic>
#include <exception>

#include "zp/base/check.h"

namespace zp {

struct ThreadPool::Job {
  const std::function<void(int64_t, int32_t)>* body = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr error;  // guarded by error_mutex
};

ThreadPool::ThreadPool(int32_t threads) {
  ZP_CHECK(threads >= 1, "a pool needs a thread, got {}", threads);
  workers_.reserve(static_cast<size_t>(threads) - 1);
  for (int32_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(Job& job, int32_t thread) {
  try {
    for (int64_t i = job.next.fetch_add(1); i < job.count; i = job.next.fetch_add(1)) (*job.body)(i, thread);
  } catch (...) {
    job.next.store(job.count);  // The others stop at their next index: the job has failed as a whole.
    const std::lock_guard lock(job.error_mutex);
    if (!job.error) job.error = std::current_exception();
  }
}

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t, int32_t)>& body) {
  if (count <= 0) return;
  Job job;
  job.body = &body;
  job.count = count;
  const bool shared = count > 1 && !workers_.empty();
  std::unique_lock turn(turn_, std::defer_lock);
  if (shared) {
    turn.lock();
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      ++generation_;
    }
    wake_.notify_all();
  }
  run(job, 0);
  if (shared) {
    // A worker that wakes late finds job_ null and goes back to sleep; one inside the job is waited for.
    std::unique_lock lock(mutex_);
    job_ = nullptr;
    done_.wait(lock, [this] { return active_ == 0; });
  }
  if (job.error) std::rethrow_exception(job.error);
}

void ThreadPool::work(int32_t thread) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || (job_ != nullptr && generation_ != seen); });
    if (stopping_) return;
    Job& job = *job_;
    seen = generation_;
    ++active_;
    lock.unlock();
    run(job, thread);
    lock.lock();
    if (--active_ == 0) done_.notify_one();
  }
}

}  // namespace zp
