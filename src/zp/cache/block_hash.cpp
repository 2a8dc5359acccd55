// XXH3 over parent and tokens.
#include "zp/cache/block_hash.h"

#include <xxhash.h>

#include <array>
#include <cstring>

#include "zp/base/check.h"

namespace zp {
namespace {

BlockHash from_xxh(XXH128_hash_t hash) { return {.lo = hash.low64, .hi = hash.high64}; }

void append_part(std::string& out, std::string_view part) {
  out += std::to_string(part.size());
  out += ':';
  out += part;
}

}  // namespace

std::string to_string(const CacheNamespace& parts) {
  std::string out;
  append_part(out, parts.model_revision);
  append_part(out, parts.adapter);
  append_part(out, parts.cache_salt);
  return out;
}

BlockHash hash_block(BlockHash parent, std::span<const int32_t> tokens) {
  ZP_DCHECK(tokens.size() == kBlockTokens, "a block has {} tokens, got {}", kBlockTokens, tokens.size());
  std::array<std::byte, sizeof(BlockHash) + kBlockTokens * sizeof(int32_t)> bytes;
  std::memcpy(bytes.data(), &parent, sizeof(parent));
  std::memcpy(bytes.data() + sizeof(parent), tokens.data(), kBlockTokens * sizeof(int32_t));
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

BlockHash hash_root(std::string_view cache_namespace) {
  return from_xxh(XXH3_128bits(cache_namespace.data(), cache_namespace.size()));
}

BlockChain::BlockChain(std::string_view cache_namespace, std::span<const int32_t> tokens, BlockHashFunction hash) {
  const size_t blocks = tokens.size() / kBlockTokens;
  hashes_.reserve(blocks);
  BlockHash parent = hash_root(cache_namespace);
  for (size_t i = 0; i < blocks; ++i) {
    parent = hash(parent, tokens.subspan(i * kBlockTokens, kBlockTokens));
    hashes_.push_back(parent);
  }
}

}  // namespace zp
