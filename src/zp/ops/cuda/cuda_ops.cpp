// Checks arguments and issues kernels.
#include "zp/ops/cuda/cuda_ops.h"

#include <vector>

#include "zp/ops/checks.h"
#include "zp/ops/cuda/attention.h"
#include "zp/ops/cuda/expert_pack.h"
#include "zp/ops/cuda/moe_kernels.h"
#include "zp/tensor/convert.h"

namespace zp::cuda {
namespace {

// What cuBLASLt's kernels and ours take when they are first used, which CUDA does not tell before.
constexpr size_t kCodeBytes = size_t{512} << 20;

CudaStream& stream_of(Stream& stream) {
  auto* cuda_stream = dynamic_cast<CudaStream*>(&stream);
  ZP_CHECK(cuda_stream != nullptr, "an operation of a GPU is issued on a stream of another device");
  return *cuda_stream;
}

const Bits16* bits(const ConstTensorView& view) {
  ZP_CHECK(view.empty() || view.dtype() == DType::kBf16, "a {} tensor is read as bf16", to_string(view.dtype()));
  return reinterpret_cast<const Bits16*>(view.data());
}
Bits16* bits(const TensorView& view) { return const_cast<Bits16*>(bits(ConstTensorView(view))); }

const float* floats_or_null(const ConstTensorView& view) { return view.empty() ? nullptr : view.as<float>(); }

ResidualNormParams norm_params(const ResidualNormArgs& args) {
  return {.residual = args.residual.as<float>(),
          .delta = floats_or_null(args.delta),
          .weight = floats_or_null(args.weight),
          .out = bits(args.out),
          .tokens = args.residual.dim(0),
          .hidden = args.residual.dim(1),
          .eps = args.eps};
}

}  // namespace

CudaOps::CudaOps(CudaDevice& device, const OpsLimits& limits, const Choices& choices)
    : device_(device),
      limits_(limits),
      choices_(choices),
      layout_(limits),
      scratch_(device.allocate(layout_.size_bytes())),
      ring_(device),
      linear_(device),
      packing_(device),
      description_("cuda bf16 (sm_90a)") {}

size_t CudaOps::scratch_bytes(const OpsLimits& limits) {
  return ScratchLayout(limits).size_bytes() + StagingRing::kSizeBytes + Linear::kWorkspaceBytes + kCodeBytes;
}

PackedMatrix CudaOps::pack_matrix(std::span<const ConstTensorView> parts) {
  const Shape shape = checks::packed_shape(parts);
  PackedMatrix matrix;
  matrix.n = shape[0];
  matrix.k = shape[1];
  matrix.buffer = device_.allocate(static_cast<size_t>(shape.elements()) * sizeof(Bf16));
  const std::unique_ptr<Stream> stream = device_.create_stream("pack");
  size_t offset = 0;
  std::vector<std::byte> converted;
  for (const ConstTensorView& part : parts) {
    converted.resize(static_cast<size_t>(part.elements()) * sizeof(Bf16));
    convert_elements(part, DType::kBf16, converted);
    stream->copy(matrix.buffer.data() + offset, converted.data(), converted.size());
    stream->synchronize();
    offset += converted.size();
  }
  return matrix;
}

size_t CudaOps::expert_blob_bytes(const ExpertSize& size) const {
  return ExpertLayout(size.hidden, size.intermediate).blob_bytes();
}

void CudaOps::pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                          std::span<std::byte> blob) const {
  checks::expert(gate, up, down, blob, expert_blob_bytes({.hidden = gate.dim(1), .intermediate = gate.dim(0)}));
  cuda::pack_expert(gate, up, down, blob);
}

PackedMatrix CudaOps::draw_matrix(std::span<const DrawnMatrix> parts) {
  PackedMatrix matrix;
  for (const DrawnMatrix& part : parts) {
    ZP_CHECK(matrix.n == 0 || part.columns == matrix.k, "parts with rows of {} and {}", matrix.k, part.columns);
    matrix.n += part.rows;
    matrix.k = part.columns;
  }
  matrix.buffer = device_.allocate(static_cast<size_t>(matrix.n * matrix.k) * sizeof(Bf16));
  const std::unique_ptr<Stream> stream = device_.create_stream("draw");
  std::byte* to = matrix.buffer.data();
  for (const DrawnMatrix& part : parts) {
    const TensorView out(to, DType::kBf16, {part.rows, part.columns});
    draw(*stream, {.matrix = part, .out = out});
    to += out.size_bytes();
  }
  stream->synchronize();
  return matrix;
}

void CudaOps::draw(Stream& stream, const DrawArgs& args) {
  checks::draw(args, DType::kBf16);
  if (args.out.elements() == 0) return;
  CudaStream& on = stream_of(stream);
  on.act("draw", [&] {
    launch_draw({.matrix = args.matrix, .out = args.out.data(), .out_is_f32 = args.out.dtype() == DType::kF32},
                on.get());
  });
}

void CudaOps::draw_expert(Stream& stream, const DrawnExpert& expert, std::byte* blob) {
  checks::draw_expert(expert, blob);
  CudaStream& on = stream_of(stream);
  on.act("draw_expert", [&] {
    launch_draw_expert({.gate = expert.gate, .up = expert.up, .down = expert.down, .blob = blob}, on.get());
  });
}

void CudaOps::embed(Stream& stream, const EmbedArgs& args) {
  checks::embed(args, DType::kBf16);
  if (args.ids.empty()) return;
  CudaStream& on = stream_of(stream);
  on.act("embed", [&] {
    Metadata metadata;
    const size_t ids = metadata.add(args.ids);
    const std::byte* sent = ring_.send(on, metadata);
    launch_embed({.ids = reinterpret_cast<const int32_t*>(sent + ids),
                  .table = bits(args.table),
                  .out = args.out.as<float>(),
                  .tokens = std::ssize(args.ids),
                  .hidden = args.table.dim(1)},
                 on.get());
  });
}

void CudaOps::residual_norm(Stream& stream, const ResidualNormArgs& args) {
  checks::residual_norm(args, DType::kBf16);
  if (args.residual.elements() == 0) return;
  CudaStream& on = stream_of(stream);
  on.act("residual_norm", [&] { launch_residual_norm(norm_params(args), on.get()); });
}

void CudaOps::linear(Stream& stream, const LinearArgs& args) {
  checks::linear(args, DType::kBf16);
  if (args.x.dim(0) == 0 || args.weight->n == 0) return;
  CudaStream& on = stream_of(stream);
  on.act("linear", [&] {
    linear_.run(on, {.x = bits(args.x),
                     .weight = reinterpret_cast<const Bits16*>(args.weight->buffer.data()),
                     .out = args.out.data(),
                     .out_is_f32 = args.out.dtype() == DType::kF32,
                     .add = args.add,
                     .tokens = args.x.dim(0),
                     .n = args.weight->n,
                     .k = args.weight->k});
  });
}

void CudaOps::rope(Stream& stream, const RopeArgs& args) {
  checks::rope(args, DType::kBf16);
  const int64_t head_dim = args.q.dim(2);
  ZP_CHECK(head_dim % 4 == 0 && head_dim <= kHeadDimMax, "head dimension {}", head_dim);
  if (args.positions.empty()) return;
  CudaStream& on = stream_of(stream);
  on.act("rope", [&] {
    Metadata metadata;
    const size_t positions = metadata.add(args.positions);
    const std::byte* sent = ring_.send(on, metadata);
    launch_rope({.qkv = args.qkv.data(),
                 .qkv_is_f32 = args.qkv.dtype() == DType::kF32,
                 .positions = reinterpret_cast<const int32_t*>(sent + positions),
                 .inverse_frequencies = args.inverse_frequencies.as<float>(),
                 .q_norm = floats_or_null(args.q_norm),
                 .k_norm = floats_or_null(args.k_norm),
                 .q = bits(args.q),
                 .k = bits(args.k),
                 .v = bits(args.v),
                 .tokens = std::ssize(args.positions),
                 .q_heads = static_cast<int32_t>(args.q.dim(1)),
                 .kv_heads = static_cast<int32_t>(args.k.dim(1)),
                 .head_dim = static_cast<int32_t>(head_dim),
                 .eps = args.eps},
                on.get());
  });
}

void CudaOps::attention(Stream& stream, const AttentionArgs& args) {
  checks::attention(args, DType::kBf16);
  const int64_t head_dim = args.q.dim(2);
  ZP_CHECK(head_dim % 16 == 0 && head_dim <= kHeadDimMax, "head dimension {}", head_dim);
  CudaStream& on = stream_of(stream);
  on.act("attention", [&] { run_attention(on, ring_, args, choices_.attention, device_); });
}

void CudaOps::store_kv(Stream& stream, const StoreKvArgs& args) {
  checks::store_kv(args, DType::kBf16);
  std::vector<KvStoreEntry> entries;
  for (const KvStore& store : args.stores)
    if (store.tokens > 0) entries.push_back({.row = store.row, .tokens = store.tokens, .k = store.k, .v = store.v});
  if (entries.empty()) return;
  const auto row_bytes = args.k.dim(1) * args.k.dim(2) * static_cast<int64_t>(sizeof(Bf16));
  ZP_CHECK(row_bytes % 16 == 0, "keys of a token have {} bytes, no multiple of 16", row_bytes);
  CudaStream& on = stream_of(stream);
  on.act("store_kv", [&] {
    Metadata metadata;
    const size_t stores = metadata.add(std::span<const KvStoreEntry>(entries));
    const std::byte* sent = ring_.send(on, metadata);
    launch_store_kv({.k = args.k.data(),
                     .v = args.v.data(),
                     .stores = reinterpret_cast<const KvStoreEntry*>(sent + stores),
                     .count = std::ssize(entries),
                     .row_bytes = row_bytes},
                    on.get());
  });
}

void CudaOps::route(Stream& stream, const RouteArgs& args) {
  checks::route(args);
  ZP_CHECK(args.logits.dim(1) <= kExpertsMax && args.ids.dim(1) <= kChosenMax, "{} of {} experts", args.ids.dim(1),
           args.logits.dim(1));
  if (args.logits.dim(0) == 0) return;
  CudaStream& on = stream_of(stream);
  on.act("route", [&] {
    const int32_t* tokens = nullptr;
    const int32_t* positions = nullptr;
    if (!args.table.empty()) {
      Metadata metadata;
      const size_t tokens_at = metadata.add(args.tokens);
      const size_t positions_at = metadata.add(args.positions);
      const std::byte* sent = ring_.send(on, metadata);
      tokens = reinterpret_cast<const int32_t*>(sent + tokens_at);
      positions = reinterpret_cast<const int32_t*>(sent + positions_at);
    }
    launch_route({.logits = args.logits.as<float>(),
                  .ids = args.ids.as<int32_t>(),
                  .weights = args.weights.as<float>(),
                  .tokens = args.logits.dim(0),
                  .experts = static_cast<int32_t>(args.logits.dim(1)),
                  .chosen = static_cast<int32_t>(args.ids.dim(1)),
                  .normalize = args.normalize,
                  .table = args.table.empty() ? nullptr : args.table.as<int32_t>(),
                  .table_rows = args.table.empty() ? 0 : args.table.dim(0),
                  .token_ids = tokens,
                  .positions = positions},
                 on.get());
  });
}

void CudaOps::moe(Stream& stream, const MoeArgs& args) {
  checks::moe(args, DType::kBf16);
  const int64_t tokens = args.ids.dim(0);
  const int64_t chosen = args.ids.dim(1);
  const int64_t experts = std::ssize(args.experts);
  ZP_CHECK(tokens <= limits_.moe_tokens && chosen <= limits_.experts_per_token && experts <= limits_.experts &&
               args.size.hidden <= limits_.expert.hidden && args.size.intermediate <= limits_.expert.intermediate,
           "{} tokens, {} of {} experts of {} x {}: more than planned for", tokens, chosen, experts, args.size.hidden,
           args.size.intermediate);
  ZP_CHECK(args.size.hidden % 8 == 0, "hidden size {} is no multiple of 8", args.size.hidden);
  if (tokens == 0) return;
  const ExpertLayout layout(args.size.hidden, args.size.intermediate);
  CudaStream& on = stream_of(stream);
  on.act("moe", [&] {
    Metadata metadata;
    const size_t pointers = metadata.add(args.experts);
    const std::byte* sent = ring_.send(on, metadata);
    const auto product = [&](const GroupedGemmParams& params) {
      if (choices_.moe == MoeChoice::kSimple)
        launch_grouped_gemm_simple(params, on.get());
      else
        launch_grouped_gemm(params, device_.multiprocessors(), on.get());
    };
    sort_assignments(args, on);
    const auto ended = [&](std::string_view stage) {
      if (args.observer == nullptr) return;
      CUDA_CHECK(cudaGetLastError(), device_.index());  // what it calls may have last errors of its own
      args.observer->end_stage(stream, stage);
    };
    ended("sort");
    GroupedGemmParams params{.x = bits(args.x),
                             .rows = scratch<int32_t>(layout_.slot_tokens),
                             .x_stride = args.size.hidden,
                             .k = args.size.hidden,
                             .experts = reinterpret_cast<std::byte* const*>(sent + pointers),
                             .weight_offset = 0,
                             .n_tiles = static_cast<int32_t>(layout.gate_up_n_tiles),
                             .k_tiles = static_cast<int32_t>(layout.gate_up_k_tiles),
                             .offsets = scratch<int32_t>(layout_.expert_offsets),
                             .tile_starts = scratch<int32_t>(layout_.tile_starts),
                             .next_tile = scratch<int32_t>(layout_.next_tile),
                             .expert_count = static_cast<int32_t>(experts),
                             .gate_up = true,
                             .out = scratch<Bits16>(layout_.inner),
                             .out_stride = layout.inner_columns(),
                             .out_columns = args.size.intermediate,
                             .slots = tokens * chosen};
    product(params);
    ended("experts gate+up");
    params.x = params.out;
    params.rows = nullptr;
    params.x_stride = params.k = layout.inner_columns();
    params.weight_offset = layout.down_begin();
    params.n_tiles = static_cast<int32_t>(layout.down_n_tiles);
    params.k_tiles = static_cast<int32_t>(layout.down_k_tiles);
    params.gate_up = false;
    params.out = scratch<Bits16>(layout_.y);
    params.out_stride = params.out_columns = args.size.hidden;
    product(params);
    ended("experts down");
    sum_slots(args, on);
  });
}

// Each assignment to a slot, slots by expert.
void CudaOps::sort_assignments(const MoeArgs& args, const CudaStream& on) {
  launch_moe_sort({.ids = args.ids.as<int32_t>(),
                   .assignments = args.ids.elements(),
                   .chosen = static_cast<int32_t>(args.ids.dim(1)),
                   .experts = static_cast<int32_t>(std::ssize(args.experts)),
                   .counts = scratch<int32_t>(layout_.expert_counts),
                   .cursors = scratch<int32_t>(layout_.expert_cursors),
                   .offsets = scratch<int32_t>(layout_.expert_offsets),
                   .tile_starts = scratch<int32_t>(layout_.tile_starts),
                   .slots = scratch<int32_t>(layout_.slots),
                   .tokens = scratch<int32_t>(layout_.slot_tokens)},
                  on.get());
}

// Each token's slots summed, and what may follow.
void CudaOps::sum_slots(const MoeArgs& args, const CudaStream& on) {
  const MoeCombineParams sum{.y = scratch<Bits16>(layout_.y),
                             .slots = scratch<int32_t>(layout_.slots),
                             .weights = args.weights.as<float>(),
                             .out = args.out.as<float>(),
                             .tokens = args.ids.dim(0),
                             .hidden = args.size.hidden,
                             .y_stride = args.size.hidden,
                             .chosen = static_cast<int32_t>(args.ids.dim(1))};
  if (args.norm_follows())
    launch_moe_combine_norm({.sum = sum, .norm = norm_params(args.norm_of_out())}, on.get());
  else
    launch_moe_combine(sum, on.get());
}

void CudaOps::swiglu(Stream& stream, const SwigluArgs& args) {
  checks::swiglu(args, DType::kBf16);
  if (args.out.elements() == 0) return;
  CudaStream& on = stream_of(stream);
  on.act("swiglu", [&] {
    launch_swiglu({.x = args.x.data(),
                   .x_is_f32 = args.x.dtype() == DType::kF32,
                   .out = bits(args.out),
                   .tokens = args.out.dim(0),
                   .width = args.out.dim(1)},
                  on.get());
  });
}

void CudaOps::gather_rows(Stream& stream, const GatherRowsArgs& args) {
  checks::gather_rows(args, DType::kBf16);
  if (args.rows.empty()) return;
  CudaStream& on = stream_of(stream);
  on.act("gather_rows", [&] {
    Metadata metadata;
    const size_t rows = metadata.add(args.rows);
    const std::byte* sent = ring_.send(on, metadata);
    launch_gather_rows({.x = args.x.data(),
                        .rows = reinterpret_cast<const int64_t*>(sent + rows),
                        .out = args.out.data(),
                        .is_f32 = args.x.dtype() == DType::kF32,
                        .count = std::ssize(args.rows),
                        .hidden = args.x.dim(1)},
                       on.get());
  });
}

void CudaOps::convert(Stream& stream, const ConvertArgs& args) {
  checks::convert(args, DType::kBf16);
  if (args.x.elements() == 0) return;
  CudaStream& on = stream_of(stream);
  on.act("convert", [&] {
    launch_convert({.x = args.x.data(),
                    .out = args.out.data(),
                    .x_is_f32 = args.x.dtype() == DType::kF32,
                    .out_is_f32 = args.out.dtype() == DType::kF32,
                    .count = args.x.elements()},
                   on.get());
  });
}

void CudaOps::combine(Stream& stream, const CombineArgs& args) {
  checks::combine(args, DType::kBf16);
  if (args.rows.empty()) return;
  CudaStream& on = stream_of(stream);
  on.act("combine", [&] {
    Metadata metadata;
    const size_t rows = metadata.add(args.rows);
    const std::byte* sent = ring_.send(on, metadata);
    launch_combine({.x = args.x.data(),
                    .rows = reinterpret_cast<const int64_t*>(sent + rows),
                    .weights = args.weights.as<float>(),
                    .out = args.out.as<float>(),
                    .x_is_f32 = args.x.dtype() == DType::kF32,
                    .tokens = args.out.dim(0),
                    .k = args.weights.dim(1),
                    .hidden = args.x.dim(1)},
                   on.get());
  });
}

// All logits of the vocabulary are never there at once: a slice of them is made, folded into each row's sum, looked
// into for candidates, and overwritten by the next.
void CudaOps::head(Stream& stream, const HeadArgs& args) {
  checks::head(args, DType::kBf16);
  const int64_t rows = args.x.dim(0);
  const int64_t vocabulary = args.weight->n;
  if (rows == 0) return;
  ZP_CHECK(rows <= limits_.head_rows && vocabulary <= limits_.vocabulary, "{} rows of {} logits: more than planned for",
           rows, vocabulary);
  std::vector<HeadCandidate> candidates;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = args.offsets[static_cast<size_t>(r)]; c < args.offsets[static_cast<size_t>(r) + 1]; ++c)
      candidates.push_back({.row = static_cast<int32_t>(r), .id = args.candidates[static_cast<size_t>(c)]});
  const int64_t first = args.offsets.front();
  CudaStream& on = stream_of(stream);
  on.act("head", [&] {
    Metadata metadata;
    const size_t sent_candidates = metadata.add(std::span<const HeadCandidate>(candidates));
    const std::byte* sent = ring_.send(on, metadata);
    auto* slice = scratch<float>(layout_.head_logits);
    for (int64_t begin = 0; begin < vocabulary; begin += kHeadSlice) {
      const int64_t width = std::min(kHeadSlice, vocabulary - begin);
      linear_.run(on, {.x = bits(args.x),
                       .weight = reinterpret_cast<const Bits16*>(args.weight->buffer.data()) + begin * args.weight->k,
                       .out = slice,
                       .out_is_f32 = true,
                       .tokens = rows,
                       .n = width,
                       .k = args.weight->k});
      launch_head_reduce({.logits = slice,
                          .rows = rows,
                          .width = width,
                          .maxima = scratch<float>(layout_.head_maxima),
                          .sums = scratch<double>(layout_.head_sums),
                          .nans = scratch<int32_t>(layout_.head_nans),
                          .log_sum_exp = args.log_sum_exp.as<float>(),
                          .first = begin == 0,
                          .last = begin + width == vocabulary},
                         on.get());
      if (!candidates.empty())
        launch_head_pick({.slice = slice,
                          .candidates = reinterpret_cast<const HeadCandidate*>(sent + sent_candidates),
                          .logits = args.logits.as<float>() + first,
                          .count = std::ssize(candidates),
                          .begin = begin,
                          .width = width},
                         on.get());
    }
  });
}

}  // namespace zp::cuda
