// The specification of every operation, as plain loops over one row after another. Sums are taken in double and
// rounded once, to the type of what is stored; nothing here is fast, and nothing depends on another row.
#pragma once

#include "zp/ops/ops.h"

namespace zp::reference {

void embed(const EmbedArgs& args);
void residual_norm(const ResidualNormArgs& args);
/// Packed matrices are row-major here: [n, k] A.
void linear(const LinearArgs& args);
void rope(const RopeArgs& args);
void attention(const AttentionArgs& args);
void store_kv(const StoreKvArgs& args);
void route(const RouteArgs& args);
/// An expert's blob is gate [I, H], up [I, H] and down [H, I], all A, one after another.
void moe(const MoeArgs& args);
/// One element after another, each by itself.
void draw(const DrawArgs& args);
void swiglu(const SwigluArgs& args);
void gather_rows(const GatherRowsArgs& args);
void convert(const ConvertArgs& args);
void combine(const CombineArgs& args);
void head(const HeadArgs& args);

}  // namespace zp::reference
