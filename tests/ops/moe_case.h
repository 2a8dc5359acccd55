// A layer of experts and tokens routed to them, for the tests of the mixture of experts.
#pragma once

#include <cmath>
#include <vector>

#include "tests/ops/harness.h"

namespace zp::test {

/// An expert's weights in the checkpoint's layout.
struct ExpertWeights {
  HostTensor gate;  // [I, H]
  HostTensor up;    // [I, H]
  HostTensor down;  // [H, I]
};

class ExpertLayer final {
 public:
  ExpertLayer(Random& random, DType type, int64_t experts, const ExpertSize& size) : size_(size) {
    for (int64_t e = 0; e < experts; ++e)
      experts_.push_back({.gate = random.tensor(type, {size.intermediate, size.hidden}, 0.2f),
                          .up = random.tensor(type, {size.intermediate, size.hidden}, 0.2f),
                          .down = random.tensor(type, {size.hidden, size.intermediate}, 0.2f)});
  }
  [[nodiscard]] const ExpertSize& size() const { return size_; }
  [[nodiscard]] int64_t experts() const { return std::ssize(experts_); }
  [[nodiscard]] const ExpertWeights& operator[](int64_t e) const { return experts_[static_cast<size_t>(e)]; }

 private:
  ExpertSize size_;
  std::vector<ExpertWeights> experts_;
};

/// Tokens, and which experts they go to.
struct Tokens {
  HostTensor x;        // [T, H] A
  HostTensor ids;      // [T, k] i32
  HostTensor weights;  // [T, k] f32

  [[nodiscard]] Tokens pick(std::span<const int64_t> rows) const {
    return {.x = x.pick(rows), .ids = ids.pick(rows), .weights = weights.pick(rows)};
  }
};

/// How tokens choose experts. `uniform`: any k. `skewed`: expert 0 always, the others mostly low. `one`: the first k.
enum class Routing : uint8_t { kUniform, kSkewed, kOne };

[[nodiscard]] inline Tokens random_tokens(Random& random, DType type, const ExpertLayer& layer, int64_t tokens,
                                          int64_t chosen, Routing routing) {
  Tokens made{.x = random.tensor(type, {tokens, layer.size().hidden}),
              .ids = HostTensor(DType::kI32, {tokens, chosen}),
              .weights = HostTensor(DType::kF32, {tokens, chosen})};
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<int64_t> order = random.permutation(layer.experts());
    if (routing == Routing::kOne)
      for (size_t e = 0; e < order.size(); ++e) order[e] = static_cast<int64_t>(e);
    if (routing == Routing::kSkewed)
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return a / 4 < b / 4; });
    for (int64_t j = 0; j < chosen; ++j) {
      made.ids.view().as<int32_t>()[t * chosen + j] = static_cast<int32_t>(order[static_cast<size_t>(j)]);
      made.weights.set(t * chosen + j, std::abs(random.normal(0.5f)));
    }
  }
  return made;
}

/// The experts' blobs, packed by one implementation. Experts that `tokens` do not need may be left out.
class PackedLayer final {
 public:
  PackedLayer(Ops& ops, const ExpertLayer& layer, const Tokens* only_for = nullptr) : size_(layer.size()) {
    const size_t bytes = ops.expert_blob_bytes(layer.size());
    memory_.resize(static_cast<size_t>(layer.experts()) * bytes + 256);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    std::byte* next = memory_.data() + (round_up_to_256(address) - address);
    for (int64_t e = 0; e < layer.experts(); ++e, next += bytes) {
      const bool needed = only_for == nullptr || uses(*only_for, e);
      blobs_.push_back(needed ? next : nullptr);
      if (needed) ops.pack_expert(layer[e].gate.view(), layer[e].up.view(), layer[e].down.view(), {next, bytes});
    }
  }
  [[nodiscard]] HostTensor run(Harness& harness, const Tokens& tokens) const {
    HostTensor out(DType::kF32, tokens.x.shape());
    harness.ops().moe(harness.stream(), {.x = tokens.x.view(),
                                         .ids = tokens.ids.view(),
                                         .weights = tokens.weights.view(),
                                         .experts = blobs_,
                                         .size = size_,
                                         .out = out.view()});
    harness.finish();
    return out;
  }
  [[nodiscard]] const std::vector<const std::byte*>& blobs() const { return blobs_; }

 private:
  static uintptr_t round_up_to_256(uintptr_t address) { return (address + 255) / 256 * 256; }
  static bool uses(const Tokens& tokens, int64_t expert) {
    const int32_t* ids = tokens.ids.view().as<int32_t>();
    return std::find(ids, ids + tokens.ids.elements(), static_cast<int32_t>(expert)) != ids + tokens.ids.elements();
  }

  ExpertSize size_;
  std::vector<std::byte> memory_;
  std::vector<const std::byte*> blobs_;
};

[[nodiscard]] inline HostTensor run_moe(const Implementation& implementation, const ExpertLayer& layer,
                                        const Tokens& tokens) {
  Harness harness(implementation);
  return PackedLayer(harness.ops(), layer, &tokens).run(harness, tokens);
}

}  // namespace zp::test
