// Addresses kept blocks.
#include "zp/model/kv_pool.h"

#include "zp/base/check.h"

namespace zp {
namespace {

size_t plane_bytes(const ModelShape& shape, DType dtype, int64_t block_tokens) {
  return static_cast<size_t>(block_tokens * shape.kv_heads * shape.head_dim) * size_of(dtype);
}

}  // namespace

size_t KvPool::block_bytes(const ModelShape& shape, DType dtype, int64_t block_tokens) {
  return plane_bytes(shape, dtype, block_tokens) * 2 * static_cast<size_t>(shape.layers);
}

KvPool::KvPool(Device& device, const ModelShape& shape, DType dtype, int64_t block_tokens, int64_t blocks)
    : blocks_(blocks),
      plane_block_bytes_(plane_bytes(shape, dtype, block_tokens)),
      buffer_(device.allocate(static_cast<size_t>(blocks) * block_bytes(shape, dtype, block_tokens))) {}

std::byte* KvPool::at(int32_t layer, int32_t plane, int64_t block) const {
  ZP_CHECK(block >= 0 && block < blocks_, "block {} of a pool of {}", block, blocks_);
  const int64_t index = (int64_t{layer} * 2 + plane) * blocks_ + block;
  return buffer_.data() + static_cast<size_t>(index) * plane_block_bytes_;
}

}  // namespace zp
