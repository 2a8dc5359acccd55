// Operations on one row after another: drawn weights, embedding, norms, rotary embedding, routing, SwiGLU, copies.
#pragma once

#include "zp/ops/cpu/workers.h"
#include "zp/ops/ops.h"

namespace zp::cpu {

void embed(Workers& workers, const EmbedArgs& args);
void residual_norm(Workers& workers, const ResidualNormArgs& args);
void rope(Workers& workers, const RopeArgs& args);
void draw(Workers& workers, const DrawArgs& args);
void store_kv(Workers& workers, const StoreKvArgs& args);
void route(Workers& workers, const RouteArgs& args);
void swiglu(Workers& workers, const SwigluArgs& args);
void gather_rows(Workers& workers, const GatherRowsArgs& args);
void convert(Workers& workers, const ConvertArgs& args);
void combine(Workers& workers, const CombineArgs& args);

}  // namespace zp::cpu
