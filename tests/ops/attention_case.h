// Batches of sequences for the tests of attention: their tokens' q, k and v, cut into cached extents and fresh rows.
#pragma once

#include <vector>

#include "tests/ops/harness.h"

namespace zp::test {

struct HeadSizes {
  int64_t q_heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 8;
};

/// A whole sequence: [tokens, heads, D] each.
struct Sequence {
  HostTensor q;
  HostTensor k;
  HostTensor v;

  [[nodiscard]] int64_t tokens() const { return q.shape()[0]; }
};

[[nodiscard]] inline Sequence random_sequence(Random& random, DType type, const HeadSizes& sizes, int64_t tokens) {
  return {.q = random.tensor(type, {tokens, sizes.q_heads, sizes.head_dim}),
          .k = random.tensor(type, {tokens, sizes.kv_heads, sizes.head_dim}, 0.5f),
          .v = random.tensor(type, {tokens, sizes.kv_heads, sizes.head_dim})};
}

/// How much of a sequence a step computes: tokens [cached, tokens). The cached ones lie in extents of these lengths,
/// the last as long as need be.
struct Cut {
  const Sequence* sequence = nullptr;
  int64_t tokens = 0;
  int64_t cached = 0;
  std::vector<int32_t> extents;
};

/// One step over several sequences.
class AttentionBatch final {
 public:
  AttentionBatch(const HeadSizes& sizes, DType type, std::vector<Cut> cuts) : sizes_(sizes), cuts_(std::move(cuts)) {
    int64_t rows = 0;
    for (const Cut& cut : cuts_) rows += cut.tokens - cut.cached;
    q_ = HostTensor(type, {rows, sizes.q_heads, sizes.head_dim});
    k_ = HostTensor(type, {rows, sizes.kv_heads, sizes.head_dim});
    v_ = HostTensor(type, {rows, sizes.kv_heads, sizes.head_dim});
    int64_t row = 0;
    for (const Cut& cut : cuts_) {
      const int64_t fresh = cut.tokens - cut.cached;
      copy_rows(cut.sequence->q, cut.cached, q_, row, fresh);
      copy_rows(cut.sequence->k, cut.cached, k_, row, fresh);
      copy_rows(cut.sequence->v, cut.cached, v_, row, fresh);
      first_rows_.push_back(row);
      extents_.push_back(make_extents(cut));
      row += fresh;
    }
    for (size_t s = 0; s < cuts_.size(); ++s)
      sequences_.push_back({.row = first_rows_[s],
                            .tokens = static_cast<int32_t>(cuts_[s].tokens - cuts_[s].cached),
                            .prefix = extents_[s]});
  }
  AttentionBatch(const AttentionBatch&) = delete;
  AttentionBatch& operator=(const AttentionBatch&) = delete;

  /// [fresh rows of all sequences, Q, D]
  [[nodiscard]] HostTensor run(Harness& harness) const {
    HostTensor out(q_.dtype(), q_.shape());
    harness.ops().attention(harness.stream(), args(out.view()));
    harness.finish();
    return out;
  }
  [[nodiscard]] AttentionArgs args(const TensorView& out) const {
    return {.q = q_.view(),
            .k = k_.view(),
            .v = v_.view(),
            .sequences = sequences_,
            .scale = 1.0f / std::sqrt(static_cast<float>(sizes_.head_dim)),
            .out = out};
  }
  [[nodiscard]] int64_t first_row(size_t sequence) const { return first_rows_[sequence]; }
  [[nodiscard]] const HostTensor& q() const { return q_; }

 private:
  static void copy_rows(const HostTensor& from, int64_t from_row, HostTensor& to, int64_t to_row, int64_t count) {
    if (count == 0) return;
    const auto bytes = from.row_bytes(from_row, count);
    std::memcpy(to.view().rows(to_row, count).data(), bytes.data(), bytes.size());
  }
  // Every extent is an allocation of its own, so that reading past one shows under AddressSanitizer.
  std::vector<KvExtent> make_extents(const Cut& cut) {
    std::vector<KvExtent> extents;
    int64_t begin = 0;
    for (size_t i = 0; begin < cut.cached; ++i) {
      const int64_t rest = cut.cached - begin;
      const int64_t tokens = i < cut.extents.size() ? std::min<int64_t>(cut.extents[i], rest) : rest;
      const Shape shape{tokens, sizes_.kv_heads, sizes_.head_dim};
      auto k = std::make_unique<HostTensor>(k_.dtype(), shape);
      auto v = std::make_unique<HostTensor>(v_.dtype(), shape);
      copy_rows(cut.sequence->k, begin, *k, 0, tokens);
      copy_rows(cut.sequence->v, begin, *v, 0, tokens);
      extents.push_back({.k = k->view().data(), .v = v->view().data(), .tokens = static_cast<int32_t>(tokens)});
      kept_.push_back(std::move(k));
      kept_.push_back(std::move(v));
      begin += tokens;
    }
    return extents;
  }

  HeadSizes sizes_;
  std::vector<Cut> cuts_;
  HostTensor q_;
  HostTensor k_;
  HostTensor v_;
  std::vector<int64_t> first_rows_;
  std::vector<std::vector<KvExtent>> extents_;
  std::vector<std::unique_ptr<HostTensor>> kept_;
  std::vector<AttentionSequence> sequences_;
};

}  // namespace zp::test
