// Checks arguments against the contract of ops.h.
#include "zp/ops/checks.h"

#include <limits>

#include "zp/base/check.h"

namespace zp::checks {
namespace {

void expect(const ConstTensorView& view, const char* name, DType dtype, const Shape& shape) {
  ZP_CHECK(view.dtype() == dtype, "{} is {}, must be {}", name, to_string(view.dtype()), to_string(dtype));
  ZP_CHECK(view.shape() == shape, "{} is {}, must be {}", name, view.shape().to_string(), shape.to_string());
  ZP_CHECK(shape.elements() == 0 || !view.empty(), "{} of shape {} has no memory", name, shape.to_string());
}

void expect_rank(const ConstTensorView& view, const char* name, int32_t rank) {
  ZP_CHECK(view.shape().rank() == rank, "{} is {}, must have {} dimensions", name, view.shape().to_string(), rank);
}

void expect_float(const ConstTensorView& view, const char* name) {
  const DType dtype = view.dtype();
  ZP_CHECK(dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16, "{} is {}, must be f32, bf16 or f16",
           name, to_string(dtype));
}

// f32 or A.
void expect_f32_or(const ConstTensorView& view, const char* name, DType activation, const Shape& shape) {
  expect(view, name, view.dtype() == DType::kF32 ? DType::kF32 : activation, shape);
}

void expect_rows(const char* name, int64_t begin, int64_t count, int64_t rows) {
  ZP_CHECK(begin >= 0 && count >= 0 && begin + count <= rows, "{}: rows [{}, {}) of {}", name, begin, begin + count,
           rows);
}

}  // namespace

void embed(const EmbedArgs& args, DType activation) {
  expect_rank(args.table, "table", 2);
  const int64_t vocabulary = args.table.dim(0);
  const int64_t hidden = args.table.dim(1);
  expect(args.table, "table", activation, {vocabulary, hidden});
  expect(args.out, "out", DType::kF32, {std::ssize(args.ids), hidden});
  for (const int32_t id : args.ids) ZP_CHECK(id >= 0 && id < vocabulary, "token id {} of {}", id, vocabulary);
}

void residual_norm(const ResidualNormArgs& args, DType activation) {
  expect_rank(args.residual, "residual", 2);
  const Shape shape = args.residual.shape();
  expect(args.residual, "residual", DType::kF32, shape);
  if (!args.delta.empty()) expect(args.delta, "delta", DType::kF32, shape);
  if (args.out.empty()) return;
  expect(args.weight, "weight", DType::kF32, {shape[1]});
  expect(args.out, "out", activation, shape);
}

void linear(const LinearArgs& args, DType activation) {
  ZP_CHECK(args.weight != nullptr, "linear has no weight");
  expect_rank(args.x, "x", 2);
  const int64_t tokens = args.x.dim(0);
  expect(args.x, "x", activation, {tokens, args.weight->k});
  expect_f32_or(args.out, "out", activation, {tokens, args.weight->n});
  ZP_CHECK(!args.add || args.out.dtype() == DType::kF32, "a product is added to {}, must be f32",
           to_string(args.out.dtype()));
}

void rope(const RopeArgs& args, DType activation) {
  expect_rank(args.q, "q", 3);
  expect_rank(args.k, "k", 3);
  const int64_t tokens = std::ssize(args.positions);
  const int64_t q_heads = args.q.dim(1);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t head_dim = args.q.dim(2);
  ZP_CHECK(head_dim % 2 == 0, "head dimension {} is odd", head_dim);
  expect_f32_or(args.qkv, "qkv", activation, {tokens, (q_heads + 2 * kv_heads) * head_dim});
  expect(args.inverse_frequencies, "inverse_frequencies", DType::kF32, {head_dim / 2});
  if (!args.q_norm.empty()) expect(args.q_norm, "q_norm", DType::kF32, {head_dim});
  if (!args.k_norm.empty()) expect(args.k_norm, "k_norm", DType::kF32, {head_dim});
  expect(args.q, "q", activation, {tokens, q_heads, head_dim});
  expect(args.k, "k", activation, {tokens, kv_heads, head_dim});
  expect(args.v, "v", activation, {tokens, kv_heads, head_dim});
}

void attention(const AttentionArgs& args, DType activation) {
  expect_rank(args.q, "q", 3);
  expect_rank(args.k, "k", 3);
  const int64_t tokens = args.q.dim(0);
  const int64_t head_dim = args.q.dim(2);
  const int64_t kv_heads = args.k.dim(1);
  ZP_CHECK(kv_heads > 0 && args.q.dim(1) % kv_heads == 0, "{} kv heads do not divide {} query heads", kv_heads,
           args.q.dim(1));
  expect(args.q, "q", activation, {tokens, args.q.dim(1), head_dim});
  expect(args.k, "k", activation, {tokens, kv_heads, head_dim});
  expect(args.v, "v", activation, {tokens, kv_heads, head_dim});
  expect(args.out, "out", activation, args.q.shape());
  ZP_CHECK(args.scale > 0, "scale is {}, must be positive", args.scale);
  int64_t covered = 0;
  for (const AttentionSequence& sequence : args.sequences) {
    expect_rows("sequence", sequence.row, sequence.tokens, tokens);
    covered += sequence.tokens;
    int64_t context = 0;
    for (const KvExtent& extent : sequence.prefix) {
      ZP_CHECK(extent.tokens > 0 && extent.tokens % kExtentGranule == 0,
               "extent of {} tokens, must be a multiple of {}", extent.tokens, kExtentGranule);
      ZP_CHECK(extent.k != nullptr && extent.v != nullptr, "extent of {} tokens has no memory", extent.tokens);
      context += extent.tokens;
    }
    ZP_CHECK(context + sequence.tokens <= std::numeric_limits<int32_t>::max(), "sequence of {} tokens",
             context + sequence.tokens);
  }
  ZP_CHECK(covered == tokens, "sequences have {} rows, q has {}", covered, tokens);
}

void store_kv(const StoreKvArgs& args, DType activation) {
  expect_rank(args.k, "k", 3);
  expect(args.k, "k", activation, args.k.shape());
  expect(args.v, "v", activation, args.k.shape());
  for (const KvStore& store : args.stores) {
    expect_rows("store", store.row, store.tokens, args.k.dim(0));
    ZP_CHECK(store.tokens == 0 || (store.k != nullptr && store.v != nullptr), "store of {} tokens has no memory",
             store.tokens);
  }
}

void route(const RouteArgs& args) {
  expect_rank(args.logits, "logits", 2);
  expect_rank(args.ids, "ids", 2);
  const int64_t tokens = args.logits.dim(0);
  const int64_t experts = args.logits.dim(1);
  const int64_t chosen = args.ids.dim(1);
  ZP_CHECK(chosen >= 1 && chosen <= experts, "{} of {} experts a token", chosen, experts);
  expect(args.logits, "logits", DType::kF32, {tokens, experts});
  expect(args.ids, "ids", DType::kI32, {tokens, chosen});
  expect(args.weights, "weights", DType::kF32, {tokens, chosen});
  if (args.table.empty()) return;
  expect_rank(args.table, "table", 2);
  expect(args.table, "table", DType::kI32, {args.table.dim(0), chosen});
  ZP_CHECK(std::ssize(args.tokens) == tokens && std::ssize(args.positions) == tokens,
           "{} tokens with {} ids and {} positions to draw their experts by", tokens, args.tokens.size(),
           args.positions.size());
}

void draw(const DrawArgs& args, DType activation) {
  expect_rank(args.out, "out", 2);
  const DType type = args.out.dtype() == DType::kF32 ? DType::kF32 : activation;
  expect(args.out, "out", type, {args.matrix.rows, args.matrix.columns});
}

void draw_expert(const DrawnExpert& expert, const std::byte* blob) {
  const DrawnMatrix& gate = expert.gate;
  ZP_CHECK(expert.up.rows == gate.rows && expert.up.columns == gate.columns && expert.down.rows == gate.columns &&
               expert.down.columns == gate.rows,
           "an expert of gate {} x {}, up {} x {} and down {} x {}", gate.rows, gate.columns, expert.up.rows,
           expert.up.columns, expert.down.rows, expert.down.columns);
  ZP_CHECK(reinterpret_cast<uintptr_t>(blob) % 256 == 0, "a blob at {}", static_cast<const void*>(blob));
}

void moe(const MoeArgs& args, DType activation) {
  expect_rank(args.ids, "ids", 2);
  const int64_t tokens = args.ids.dim(0);
  expect(args.x, "x", activation, {tokens, args.size.hidden});
  expect(args.ids, "ids", DType::kI32, args.ids.shape());
  expect(args.weights, "weights", DType::kF32, args.ids.shape());
  expect(args.out, "out", DType::kF32, {tokens, args.size.hidden});
  if (!args.norm_follows()) return;
  ZP_CHECK(args.then.delta.empty(), "what follows the experts adds their sum and no other");
  expect(args.then.residual, "residual", DType::kF32, args.out.shape());
  residual_norm(args.norm_of_out(), activation);
}

void swiglu(const SwigluArgs& args, DType activation) {
  expect_rank(args.out, "out", 2);
  const int64_t tokens = args.out.dim(0);
  expect_f32_or(args.x, "x", activation, {tokens, 2 * args.out.dim(1)});
  expect(args.out, "out", activation, args.out.shape());
}

void gather_rows(const GatherRowsArgs& args, DType activation) {
  expect_rank(args.x, "x", 2);
  expect_f32_or(args.x, "x", activation, args.x.shape());
  expect(args.out, "out", args.x.dtype(), {std::ssize(args.rows), args.x.dim(1)});
  for (const int64_t row : args.rows) ZP_CHECK(row >= 0 && row < args.x.dim(0), "row {} of {}", row, args.x.dim(0));
}

void convert(const ConvertArgs& args, DType activation) {
  expect_rank(args.x, "x", 2);
  expect_f32_or(args.x, "x", activation, args.x.shape());
  expect_f32_or(args.out, "out", activation, args.x.shape());
}

void combine(const CombineArgs& args, DType activation) {
  expect_rank(args.x, "x", 2);
  expect_rank(args.weights, "weights", 2);
  const int64_t tokens = args.weights.dim(0);
  expect_f32_or(args.x, "x", activation, args.x.shape());
  expect(args.weights, "weights", DType::kF32, args.weights.shape());
  expect(args.out, "out", DType::kF32, {tokens, args.x.dim(1)});
  ZP_CHECK(std::ssize(args.rows) == args.weights.elements(), "{} rows for weights of shape {}", args.rows.size(),
           args.weights.shape().to_string());
  for (const int64_t row : args.rows) ZP_CHECK(row >= 0 && row < args.x.dim(0), "row {} of {}", row, args.x.dim(0));
}

void head(const HeadArgs& args, DType activation) {
  ZP_CHECK(args.weight != nullptr, "head has no weight");
  expect_rank(args.x, "x", 2);
  const int64_t rows = args.x.dim(0);
  expect(args.x, "x", activation, {rows, args.weight->k});
  ZP_CHECK(std::ssize(args.offsets) == rows + 1, "{} offsets for {} rows", args.offsets.size(), rows);
  const int64_t count = std::ssize(args.candidates);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = args.offsets[static_cast<size_t>(row)];
    const int64_t end = args.offsets[static_cast<size_t>(row) + 1];
    ZP_CHECK(begin >= 0 && begin <= end && end <= count, "candidates [{}, {}) of {}", begin, end, count);
  }
  for (const int32_t id : args.candidates)
    ZP_CHECK(id >= 0 && id < args.weight->n, "candidate {} of {}", id, args.weight->n);
  expect(args.logits, "logits", DType::kF32, {args.offsets[static_cast<size_t>(rows)]});
  expect(args.log_sum_exp, "log_sum_exp", DType::kF32, {rows});
}

Shape packed_shape(std::span<const ConstTensorView> parts) {
  ZP_CHECK(!parts.empty(), "a matrix is packed from no parts");
  int64_t outputs = 0;
  for (const ConstTensorView& part : parts) {
    expect_rank(part, "part", 2);
    expect_float(part, "part");
    expect(part, "part", part.dtype(), {part.dim(0), parts[0].dim(1)});
    outputs += part.dim(0);
  }
  return {outputs, parts[0].dim(1)};
}

void expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
            std::span<const std::byte> blob, size_t blob_bytes) {
  expect_rank(gate, "gate", 2);
  expect_float(gate, "gate");
  expect_float(up, "up");
  expect_float(down, "down");
  expect(gate, "gate", gate.dtype(), gate.shape());
  expect(up, "up", up.dtype(), gate.shape());
  expect(down, "down", down.dtype(), {gate.dim(1), gate.dim(0)});
  ZP_CHECK(blob.size() == blob_bytes, "expert blob of {} bytes, must be {}", blob.size(), blob_bytes);
  ZP_CHECK(reinterpret_cast<uintptr_t>(blob.data()) % 256 == 0, "expert blob at {} is not aligned to 256 bytes",
           static_cast<const void*>(blob.data()));
}

}  // namespace zp::checks
