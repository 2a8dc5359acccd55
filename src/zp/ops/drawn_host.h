// Drawn weights in host memory, for backends that pack them there.
#pragma once

#include <span>
#include <vector>

#include "zp/ops/drawn.h"
#include "zp/ops/ops.h"
#include "zp/tensor/dtype.h"

namespace zp {

/// The elements of row `row` of `matrix` (counted from its own first), as many as `out` has.
void draw_row(const DrawnMatrix& matrix, int64_t row, std::span<Bf16> out);
/// Row-major.
[[nodiscard]] std::vector<Bf16> draw_elements(const DrawnMatrix& matrix);

/// What draw_matrix() and draw_expert() are where matrices are packed from host memory.
[[nodiscard]] PackedMatrix pack_drawn_matrix(Ops& ops, std::span<const DrawnMatrix> parts);
void pack_drawn_expert(const Ops& ops, const DrawnExpert& expert, std::span<std::byte> blob);

}  // namespace zp
