// The one owner of handles that a CUDA library makes and destroys.
#pragma once

#include <utility>

namespace zp::cuda {

/// Owns a handle (a pointer type T) and ends it with Destroy, whose status nobody could act on and is dropped: a device
/// that has failed refuses to destroy things, and its failure has been reported by then.
template <typename T, auto Destroy>
class Handle final {
 public:
  Handle() = default;
  explicit Handle(T value) noexcept : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (value_ != nullptr) (void)Destroy(value_);
  }

  [[nodiscard]] T get() const noexcept { return value_; }
  /// For functions that make a handle.
  [[nodiscard]] T* put() noexcept { return &value_; }

 private:
  T value_ = nullptr;
};

}  // namespace zp::cuda
