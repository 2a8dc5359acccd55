// Allocates owning tensors.
#include "zp/tensor/tensor.h"

namespace zp {

Tensor::Tensor(Device& device, DType dtype, Shape shape)
    : buffer_(device.allocate(static_cast<size_t>(shape.elements()) * size_of(dtype))), dtype_(dtype), shape_(shape) {}

}  // namespace zp
