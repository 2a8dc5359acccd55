// Chunks that split when they are full, and merge while two are no more than half of one.
#include "zp/schedule/waiting_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "zp/base/check.h"

namespace zp {

WaitingOrder::Chunks::iterator WaitingOrder::chunk_of(const Key& key) {
  const auto after = chunks_.upper_bound(key);
  return after == chunks_.begin() ? after : std::prev(after);
}

WaitingOrder::Chunk::iterator WaitingOrder::place_of(Chunk& chunk, const Key& key) const {
  return std::ranges::lower_bound(chunk, key, {}, [this](const Waiting& waiting) { return key_of(waiting); });
}

void WaitingOrder::insert(const Waiting& waiting) {
  const Key key = key_of(waiting);
  auto chunk = chunk_of(key);
  if (chunk == chunks_.end()) {
    chunk = chunks_.try_emplace(key).first;
  } else if (key < chunk->first) {
    auto node = chunks_.extract(chunk);
    node.key() = key;
    chunk = chunks_.insert(std::move(node)).position;
  }
  if (chunk->second.size() == kChunkEntries) chunk = split(chunk, key);
  const auto place = place_of(chunk->second, key);
  ZP_CHECK(place == chunk->second.end() || key_of(*place) != key, "request {} has a place already", waiting.sequence);
  chunk->second.insert(place, waiting);
  ++size_;
}

// Makes room for the key; the chunk where it belongs then.
WaitingOrder::Chunks::iterator WaitingOrder::split(Chunks::iterator chunk, const Key& key) {
  Chunk& full = chunk->second;
  // Most requests come in order, and leave full chunks behind.
  if (std::next(chunk) == chunks_.end() && key_of(full.back()) < key) return chunks_.try_emplace(key).first;
  const auto middle = full.begin() + kChunkEntries / 2;
  const Key from = key_of(*middle);
  const auto next = chunks_.emplace(from, Chunk(middle, full.end())).first;
  full.erase(middle, full.end());
  return key < from ? chunk : next;
}

void WaitingOrder::erase(const Waiting& waiting) {
  const Key key = key_of(waiting);
  const auto chunk = chunk_of(key);
  ZP_CHECK(chunk != chunks_.end(), "request {} has no place", waiting.sequence);
  Chunk& entries = chunk->second;
  const auto place = place_of(entries, key);
  ZP_CHECK(place != entries.end() && key_of(*place) == key, "request {} has no place", waiting.sequence);
  entries.erase(place);
  --size_;
  if (entries.size() >= kChunkEntries / 2) return;
  if (entries.empty()) {
    chunks_.erase(chunk);
  } else if (!merge_with_next(chunk) && chunk != chunks_.begin()) {
    merge_with_next(std::prev(chunk));
  }
}

bool WaitingOrder::merge_with_next(Chunks::iterator chunk) {
  const auto next = std::next(chunk);
  if (next == chunks_.end() || chunk->second.size() + next->second.size() >= kChunkEntries / 2) return false;
  chunk->second.insert(chunk->second.end(), next->second.begin(), next->second.end());
  chunks_.erase(next);
  return true;
}

Waiting* WaitingOrder::find(const Waiting& waiting) {
  const Key key = key_of(waiting);
  const auto chunk = chunk_of(key);
  if (chunk == chunks_.end()) return nullptr;
  const auto place = place_of(chunk->second, key);
  return place == chunk->second.end() || key_of(*place) != key ? nullptr : &*place;
}

void WaitingOrder::check_invariants() const {
  size_t entries = 0;
  const Waiting* before = nullptr;
  size_t neighbour = kChunkEntries;
  for (const auto& [from, chunk] : chunks_) {
    ZP_CHECK(!chunk.empty() && chunk.size() <= kChunkEntries, "a chunk has {} entries", chunk.size());
    ZP_CHECK(neighbour + chunk.size() >= kChunkEntries / 2, "chunks of {} and {} entries are neighbours", neighbour,
             chunk.size());
    ZP_CHECK(before == nullptr || key_of(*before) < from, "the chunk before that of request {} ends in it",
             chunk.front().sequence);
    ZP_CHECK(from <= key_of(chunk.front()), "request {} is before its chunk", chunk.front().sequence);
    for (const Waiting& waiting : chunk) {
      ZP_CHECK(before == nullptr || key_of(*before) < key_of(waiting), "request {} is in the wrong place",
               waiting.sequence);
      before = &waiting;
    }
    entries += chunk.size();
    neighbour = chunk.size();
  }
  ZP_CHECK(entries == size_, "{} entries, {} counted", entries, size_);
}

}  // namespace zp
