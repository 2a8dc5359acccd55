// A tensor that owns its device memory.
#pragma once

#include "zp/device/device.h"
#include "zp/tensor/tensor_view.h"

namespace zp {

/// Row-major and contiguous, in one Buffer. Contents start undefined.
class Tensor final {
 public:
  Tensor() = default;
  Tensor(Device& device, DType dtype, Shape shape);

  [[nodiscard]] TensorView view() const noexcept { return {buffer_.data(), dtype_, shape_}; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] size_t size_bytes() const noexcept { return buffer_.size_bytes(); }

 private:
  Buffer buffer_;
  DType dtype_ = DType::kF32;
  Shape shape_;
};

}  // namespace zp
