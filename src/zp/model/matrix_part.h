// Which part of a stored matrix a rank wants.
#pragma once

#include <string>
#include <utility>

#include "zp/shape/model_shard.h"
#include "zp/tensor/tensor_view.h"

namespace zp {

/// Rows [rows.begin, rows.end()) and columns [columns.begin, columns.end()) of a stored matrix.
struct MatrixPart {
  std::string name;
  Shape whole;  ///< of the whole matrix
  IndexRange rows;
  IndexRange columns;
};

/// Elements of a stored row. A vector is a column, so that it is read in pieces whatever its length.
[[nodiscard]] inline int64_t row_elements(const MatrixPart& part) { return part.whole.rank() == 2 ? part.whole[1] : 1; }

[[nodiscard]] inline MatrixPart some_rows(std::string name, const Shape& whole, IndexRange rows) {
  return {std::move(name), whole, rows, {0, static_cast<int32_t>(whole[1])}};
}

[[nodiscard]] inline MatrixPart some_columns(std::string name, const Shape& whole, IndexRange columns) {
  return {std::move(name), whole, {0, static_cast<int32_t>(whole[0])}, columns};
}

}  // namespace zp
