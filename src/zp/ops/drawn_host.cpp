// Draws weights row by row.
#include "zp/ops/drawn_host.h"

namespace zp {

void draw_row(const DrawnMatrix& matrix, int64_t row, std::span<Bf16> out) {
  PhiloxWords words{};
  int64_t drawn_quad = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t column = matrix.column + static_cast<int64_t>(i);
    if (column / 4 != drawn_quad) {
      drawn_quad = column / 4;
      words = drawn_words(matrix.key, matrix.row + row, drawn_quad);
    }
    out[i] = to_bf16(drawn_value(words.word[column % 4], matrix.unit));
  }
}

std::vector<Bf16> draw_elements(const DrawnMatrix& matrix) {
  std::vector<Bf16> elements(static_cast<size_t>(matrix.rows * matrix.columns));
  const auto columns = static_cast<size_t>(matrix.columns);
  for (int64_t r = 0; r < matrix.rows; ++r)
    draw_row(matrix, r, std::span(elements).subspan(static_cast<size_t>(r) * columns, columns));
  return elements;
}

PackedMatrix pack_drawn_matrix(Ops& ops, std::span<const DrawnMatrix> parts) {
  std::vector<std::vector<Bf16>> elements;
  std::vector<ConstTensorView> views;
  for (const DrawnMatrix& part : parts) {
    const std::vector<Bf16>& drawn = elements.emplace_back(draw_elements(part));
    views.emplace_back(reinterpret_cast<const std::byte*>(drawn.data()), DType::kBf16, Shape{part.rows, part.columns});
  }
  return ops.pack_matrix(views);
}

void pack_drawn_expert(const Ops& ops, const DrawnExpert& expert, std::span<std::byte> blob) {
  const auto view = [](const DrawnMatrix& matrix, const std::vector<Bf16>& elements) -> ConstTensorView {
    return {reinterpret_cast<const std::byte*>(elements.data()), DType::kBf16, {matrix.rows, matrix.columns}};
  };
  const std::vector<Bf16> gate = draw_elements(expert.gate);
  const std::vector<Bf16> up = draw_elements(expert.up);
  const std::vector<Bf16> down = draw_elements(expert.down);
  ops.pack_expert(view(expert.gate, gate), view(expert.up, up), view(expert.down, down), blob);
}

}  // namespace zp
