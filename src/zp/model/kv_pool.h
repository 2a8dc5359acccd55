// Storage for the keys and values of kept blocks, all layers, on one rank.
#pragma once

#include <cstdint>

#include "zp/device/device.h"
#include "zp/shape/model_shape.h"
#include "zp/tensor/dtype.h"

namespace zp {

/// Memory only; which block is whose is the scheduler's business. Laid out [layer][k or v][block][16, G, D], so that
/// consecutive blocks of a layer are contiguous: an extent.
class KvPool final {
 public:
  /// `block_tokens` tokens a block. Zero blocks take no memory (KV-free mode).
  KvPool(Device& device, const ModelShape& shape, DType dtype, int64_t block_tokens, int64_t blocks);

  [[nodiscard]] int64_t blocks() const noexcept { return blocks_; }
  /// Keys of `block` in `layer`: [block_tokens, G, D].
  [[nodiscard]] std::byte* k(int32_t layer, int64_t block) const { return at(layer, 0, block); }
  [[nodiscard]] std::byte* v(int32_t layer, int64_t block) const { return at(layer, 1, block); }

  /// Bytes of one block over all layers, keys and values.
  [[nodiscard]] static size_t block_bytes(const ModelShape& shape, DType dtype, int64_t block_tokens);

 private:
  [[nodiscard]] std::byte* at(int32_t layer, int32_t plane, int64_t block) const;

  int64_t blocks_;
  size_t plane_block_bytes_;  // one block, one layer, keys or values
  Buffer buffer_;
};

}  // namespace zp
