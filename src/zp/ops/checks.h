// The checks of every operation's arguments: the contract of ops.h, in one place for all backends.
#pragma once

#include "zp/ops/ops.h"

namespace zp::checks {

/// Each aborts (ZP_CHECK) when shapes, element types, host metadata or pointers break the contract. `activation` is the
/// type A of the Ops object. They read host memory only, so they run when the operation is issued.
void embed(const EmbedArgs& args, DType activation);
void residual_norm(const ResidualNormArgs& args, DType activation);
void linear(const LinearArgs& args, DType activation);
void rope(const RopeArgs& args, DType activation);
void attention(const AttentionArgs& args, DType activation);
void store_kv(const StoreKvArgs& args, DType activation);
void route(const RouteArgs& args);
void draw(const DrawArgs& args, DType activation);
void draw_expert(const DrawnExpert& expert, const std::byte* blob);
void moe(const MoeArgs& args, DType activation);
void swiglu(const SwigluArgs& args, DType activation);
void gather_rows(const GatherRowsArgs& args, DType activation);
void convert(const ConvertArgs& args, DType activation);
void combine(const CombineArgs& args, DType activation);
void head(const HeadArgs& args, DType activation);

/// Parts of pack_matrix(): all [n_i, k] with one k, of a floating type. Returns [sum of n_i, k].
[[nodiscard]] Shape packed_shape(std::span<const ConstTensorView> parts);
/// The three matrices of pack_expert() and its blob.
void expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
            std::span<const std::byte> blob, size_t blob_bytes);

}  // namespace zp::checks
