// No operation touches memory beside what it is given. Every input and output ends at a page that must not be touched:
// vector loads are not instrumented by AddressSanitizer.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tests/ops/moe_case.h"

namespace zp::test {
namespace {

class Bounds : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Bounds);

/// A copy of a tensor that ends where a forbidden page begins, and begins less than a page after another.
class Guarded final {
 public:
  explicit Guarded(const HostTensor& tensor) : dtype_(tensor.dtype()), shape_(tensor.shape()) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (tensor.bytes().size() + page - 1) / page * page;
    size_ = inner + 2 * page;
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ZP_CHECK(memory != MAP_FAILED, "mmap: errno {}", errno);
    memory_ = static_cast<std::byte*>(memory);
    ZP_CHECK(mprotect(memory_, page, PROT_NONE) == 0, "mprotect: errno {}", errno);
    ZP_CHECK(mprotect(memory_ + page + inner, page, PROT_NONE) == 0, "mprotect: errno {}", errno);
    data_ = memory_ + page + inner - tensor.bytes().size();
    if (!tensor.bytes().empty()) std::memcpy(data_, tensor.bytes().data(), tensor.bytes().size());
  }
  ~Guarded() { munmap(memory_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  [[nodiscard]] TensorView view() const { return {data_, dtype_, shape_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, view().size_bytes()}; }

 private:
  DType dtype_;
  Shape shape_;
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
  std::byte* data_ = nullptr;
};

// Widths around vectors and tiles.
constexpr int64_t kWidths[] = {2, 6, 16, 18, 32, 34, 46};

TEST_P(Bounds, Linear) {
  for (const int64_t k : kWidths) {
    for (const int64_t n : {1, 31, 33}) {
      Random random(1);
      Harness harness(GetParam());
      const PackedMatrix packed = harness.pack(random.tensor(activation(), {n, k}));
      const Guarded x(random.tensor(activation(), {17, k}));
      for (const DType type : {DType::kF32, activation()}) {
        const Guarded out(HostTensor(type, {17, n}));
        harness.ops().linear(harness.stream(), {.x = x.view(), .weight = &packed, .out = out.view()});
        harness.finish();
      }
    }
  }
}

TEST_P(Bounds, Attention) {
  for (const int64_t head_dim : kWidths) {
    for (const int64_t tokens : {1, 5, 33}) {
      Random random(2);
      const Guarded q(random.tensor(activation(), {tokens, 3, head_dim}));
      const Guarded k(random.tensor(activation(), {tokens, 1, head_dim}));
      const Guarded v(random.tensor(activation(), {tokens, 1, head_dim}));
      const Guarded old_k(random.tensor(activation(), {16, 1, head_dim}));
      const Guarded old_v(random.tensor(activation(), {16, 1, head_dim}));
      const Guarded out(HostTensor(activation(), {tokens, 3, head_dim}));
      const KvExtent extent{.k = old_k.view().data(), .v = old_v.view().data(), .tokens = 16};
      const AttentionSequence sequence{.row = 0, .tokens = static_cast<int32_t>(tokens), .prefix = {&extent, 1}};
      Harness harness(GetParam());
      harness.ops().attention(
          harness.stream(),
          {.q = q.view(), .k = k.view(), .v = v.view(), .sequences = {&sequence, 1}, .scale = 0.3f, .out = out.view()});
      harness.finish();
    }
  }
}

TEST_P(Bounds, Rope) {
  for (const int64_t head_dim : kWidths) {
    Random random(3);
    const Guarded qkv(random.tensor(activation(), {3, 4 * head_dim}));
    const Guarded frequencies(random.tensor(DType::kF32, {head_dim / 2}));
    const Guarded norm(random.tensor(DType::kF32, {head_dim}));
    const std::vector<int32_t> positions = {0, 1, 2};
    const Guarded q(HostTensor(activation(), {3, 2, head_dim}));
    const Guarded k(HostTensor(activation(), {3, 1, head_dim}));
    const Guarded v(HostTensor(activation(), {3, 1, head_dim}));
    Harness harness(GetParam());
    harness.ops().rope(harness.stream(), {.qkv = qkv.view(),
                                          .positions = positions,
                                          .inverse_frequencies = frequencies.view(),
                                          .q_norm = norm.view(),
                                          .k_norm = norm.view(),
                                          .eps = 1e-6f,
                                          .q = q.view(),
                                          .k = k.view(),
                                          .v = v.view()});
    harness.finish();
  }
}

TEST_P(Bounds, Rows) {
  for (const int64_t width : kWidths) {
    Random random(4);
    Harness harness(GetParam());
    const Guarded table(random.tensor(activation(), {5, width}));
    const std::vector<int32_t> ids = {4, 0};
    const Guarded residual(HostTensor(DType::kF32, {2, width}));
    harness.ops().embed(harness.stream(), {.ids = ids, .table = table.view(), .out = residual.view()});
    const Guarded delta(random.tensor(DType::kF32, {2, width}));
    const Guarded weight(random.tensor(DType::kF32, {width}));
    const Guarded normed(HostTensor(activation(), {2, width}));
    harness.ops().residual_norm(harness.stream(), {.residual = residual.view(),
                                                   .delta = delta.view(),
                                                   .weight = weight.view(),
                                                   .eps = 1e-6f,
                                                   .out = normed.view()});
    const Guarded halved(HostTensor(activation(), {2, width / 2}));
    harness.ops().swiglu(harness.stream(), {.x = normed.view(), .out = halved.view()});
    const Guarded ids_out(HostTensor(DType::kI32, {2, 2}));
    const Guarded weights_out(HostTensor(DType::kF32, {2, 2}));
    harness.ops().route(
        harness.stream(),
        {.logits = residual.view(), .normalize = true, .ids = ids_out.view(), .weights = weights_out.view()});
    const std::vector<int64_t> rows = {1};
    const Guarded gathered(HostTensor(DType::kF32, {1, width}));
    harness.ops().gather_rows(harness.stream(), {.x = residual.view(), .rows = rows, .out = gathered.view()});
    harness.finish();
  }
}

TEST_P(Bounds, Moe) {
  for (const int64_t width : kWidths) {
    Random random(5);
    const ExpertSize size{.hidden = width, .intermediate = width / 2};
    const ExpertLayer layer(random, activation(), 3, size);
    const Tokens tokens = random_tokens(random, activation(), layer, 20, 2, Routing::kUniform);
    Harness harness(GetParam());
    const PackedLayer packed(harness.ops(), layer);
    const Guarded x(tokens.x);
    const Guarded ids(tokens.ids);
    const Guarded weights(tokens.weights);
    const Guarded out(HostTensor(DType::kF32, tokens.x.shape()));
    harness.ops().moe(harness.stream(), {.x = x.view(),
                                         .ids = ids.view(),
                                         .weights = weights.view(),
                                         .experts = packed.blobs(),
                                         .size = size,
                                         .out = out.view()});
    harness.finish();
    EXPECT_TRUE(same_bytes(out.bytes(), packed.run(harness, tokens).bytes()));
  }
}

TEST_P(Bounds, Head) {
  for (const int64_t width : kWidths) {
    Random random(6);
    Harness harness(GetParam());
    const PackedMatrix packed = harness.pack(random.tensor(activation(), {37, width}));
    const Guarded x(random.tensor(activation(), {3, width}));
    const std::vector<int64_t> offsets = {0, 1, 1, 2};
    const std::vector<int32_t> candidates = {36, 0};
    const Guarded logits(HostTensor(DType::kF32, {2}));
    const Guarded log_sum_exp(HostTensor(DType::kF32, {3}));
    harness.ops().head(harness.stream(), {.x = x.view(),
                                          .weight = &packed,
                                          .offsets = offsets,
                                          .candidates = candidates,
                                          .logits = logits.view(),
                                          .log_sum_exp = log_sum_exp.view()});
    harness.finish();
  }
}

}  // namespace
}  // namespace zp::test
