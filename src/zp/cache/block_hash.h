// Names of blocks: a chain of 128-bit hashes over a sequence's whole blocks, begun from what the cache is about.
// A hash only finds a block; what a block *is* is its tokens and its parent (prefix_index.h verifies both).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zp {

/// Tokens of a block, the unit of hashing and reuse.
inline constexpr int32_t kBlockTokens = 16;

struct BlockHash {
  uint64_t lo = 0;
  uint64_t hi = 0;
  friend bool operator==(const BlockHash&, const BlockHash&) = default;
};

/// What keys and values depend on besides the tokens. Requests share blocks only when all three are equal.
struct CacheNamespace {
  std::string_view model_revision;
  std::string_view adapter;     ///< empty: none
  std::string_view cache_salt;  ///< the user's; keeps tenants apart
};
/// One string for the three, distinct for distinct parts: lengths are part of it.
[[nodiscard]] std::string to_string(const CacheNamespace& parts);

/// The hash of a block from its parent's and its kBlockTokens token ids.
using BlockHashFunction = BlockHash (*)(BlockHash parent, std::span<const int32_t> tokens);
[[nodiscard]] BlockHash hash_block(BlockHash parent, std::span<const int32_t> tokens);
/// The parent of a sequence's first block.
[[nodiscard]] BlockHash hash_root(std::string_view cache_namespace);

/// The hashes of a sequence's whole blocks; a last part of fewer than kBlockTokens tokens has none. A value, made once
/// for each request. Another hash function is for tests of collisions.
class BlockChain final {
 public:
  BlockChain() = default;
  BlockChain(std::string_view cache_namespace, std::span<const int32_t> tokens, BlockHashFunction hash = hash_block);

  [[nodiscard]] int32_t size() const noexcept { return static_cast<int32_t>(hashes_.size()); }
  [[nodiscard]] std::span<const BlockHash> hashes() const noexcept { return hashes_; }

 private:
  std::vector<BlockHash> hashes_;
};

}  // namespace zp
