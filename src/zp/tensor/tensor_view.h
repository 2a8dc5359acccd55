// A borrowed, row-major, contiguous tensor: pointer, element type and shape.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "zp/base/check.h"
#include "zp/tensor/dtype.h"

namespace zp {

/// Up to four extents, outermost first.
class Shape final {
 public:
  static constexpr int32_t kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    ZP_CHECK(dims.size() <= kMaxRank, "a shape has at most {} dimensions, got {}", kMaxRank, dims.size());
    for (const int64_t dim : dims) dims_[static_cast<size_t>(rank_++)] = dim;
  }
  [[nodiscard]] int32_t rank() const noexcept { return rank_; }
  [[nodiscard]] int64_t operator[](int32_t axis) const {
    ZP_DCHECK(axis >= 0 && axis < rank_, "axis {} of a shape of rank {}", axis, rank_);
    return dims_[static_cast<size_t>(axis)];
  }
  [[nodiscard]] int64_t elements() const noexcept {
    int64_t product = 1;
    for (int32_t i = 0; i < rank_; ++i) product *= dims_[static_cast<size_t>(i)];
    return product;
  }
  [[nodiscard]] bool operator==(const Shape& other) const noexcept = default;
  /// "[128, 64]"
  [[nodiscard]] std::string to_string() const {
    std::string text = "[";
    for (int32_t i = 0; i < rank_; ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims_[static_cast<size_t>(i)]);
    return text + "]";
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int32_t rank_ = 0;
};

/// Does not own; must not outlive the memory. Copyable. `Pointer` is `std::byte*` or `const std::byte*`.
template <typename Pointer>
class BasicTensorView final {
 public:
  BasicTensorView() = default;
  BasicTensorView(Pointer data, DType dtype, Shape shape) : data_(data), dtype_(dtype), shape_(shape) {}
  /// A mutable view reads as a constant one.
  template <typename Other>
  // NOLINTNEXTLINE(google-explicit-constructor): the conversion loses nothing
  requires std::is_convertible_v<Other, Pointer> BasicTensorView(const BasicTensorView<Other>& other)
      : data_(other.data()), dtype_(other.dtype()), shape_(other.shape()) {}

  [[nodiscard]] Pointer data() const noexcept { return data_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] int64_t dim(int32_t axis) const { return shape_[axis]; }
  [[nodiscard]] int64_t elements() const noexcept { return shape_.elements(); }
  [[nodiscard]] size_t size_bytes() const noexcept { return static_cast<size_t>(elements()) * size_of(dtype_); }
  [[nodiscard]] bool empty() const noexcept { return data_ == nullptr; }

  /// The elements as T, which must be the view's type.
  template <typename T>
  [[nodiscard]] auto* as() const {
    using Element = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T, T>;
    ZP_CHECK(dtype_ == kDTypeOf<T>, "a {} tensor is read as {}", to_string(dtype_), to_string(kDTypeOf<T>));
    return reinterpret_cast<Element*>(data_);
  }

  /// Rows [begin, begin + count) of the outermost axis.
  [[nodiscard]] BasicTensorView rows(int64_t begin, int64_t count) const {
    ZP_CHECK(shape_.rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= shape_[0],
             "rows [{}, {}) of a tensor of shape {}", begin, begin + count, shape_.to_string());
    const int64_t row_elements = shape_[0] == 0 ? 0 : elements() / shape_[0];
    Shape shape;
    switch (shape_.rank()) {
      case 1: shape = {count}; break;
      case 2: shape = {count, shape_[1]}; break;
      case 3: shape = {count, shape_[1], shape_[2]}; break;
      default: shape = {count, shape_[1], shape_[2], shape_[3]}; break;
    }
    return {data_ + static_cast<size_t>(begin * row_elements) * size_of(dtype_), dtype_, shape};
  }

 private:
  Pointer data_ = nullptr;
  DType dtype_ = DType::kF32;
  Shape shape_;
};

using TensorView = BasicTensorView<std::byte*>;
using ConstTensorView = BasicTensorView<const std::byte*>;

/// Views a vector or array of elements as a tensor.
template <typename T>
[[nodiscard]] TensorView view_of(T* data, Shape shape) {
  return {reinterpret_cast<std::byte*>(data), kDTypeOf<T>, shape};
}
template <typename T>
[[nodiscard]] ConstTensorView view_of(const T* data, Shape shape) {
  return {reinterpret_cast<const std::byte*>(data), kDTypeOf<T>, shape};
}

}  // namespace zp
