// A blocking first-in first-out queue with a fixed capacity: the only way data crosses threads, besides events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "zp/base/check.h"

namespace zp {

/// Any number of producers and consumers. Invariant: size() <= capacity. After close() pushes are refused and pops
/// drain what is left, so nothing that was accepted is lost.
template <typename T>
class BoundedQueue final {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {
    ZP_CHECK(capacity > 0, "a queue needs room for one item, got capacity {}", capacity);
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  /// Blocks while the queue is full. Returns false, once the queue is closed.
  [[nodiscard]] bool push(T item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [this] { return items_.size() < capacity_ || closed_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    lock.unlock();
    not_empty_.notify_one();
    return true;
  }

  /// Never blocks. Returns false when the queue is full or closed; the item is dropped then.
  [[nodiscard]] bool try_push(T item) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  /// Blocks until an item arrives; empty once the queue is closed and drained.
  [[nodiscard]] std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return !items_.empty() || closed_; });
    return take(lock);
  }

  /// As pop(), but empty also when nothing has arrived in so long.
  [[nodiscard]] std::optional<T> pop_within(std::chrono::nanoseconds time) {
    std::unique_lock lock(mutex_);
    (void)not_empty_.wait_for(lock, time, [this] { return !items_.empty() || closed_; });
    return take(lock);
  }

  /// Never blocks; empty when there is nothing to take.
  [[nodiscard]] std::optional<T> try_pop() {
    std::unique_lock lock(mutex_);
    return take(lock);
  }

  /// Refuses further pushes and wakes everybody. Never blocks; may be called twice.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> take(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    not_full_.notify_one();
    return item;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::deque<T> items_;  // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace zp
