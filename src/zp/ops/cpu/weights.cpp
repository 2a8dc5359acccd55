// Packs weights.
#include "zp/ops/cpu/weights.h"

#include <algorithm>
#include <cstring>

namespace zp::cpu {
namespace {

constexpr int64_t kBlock = 64;  // elements of k packed at a time, so that the lines written stay in the L1 cache

template <typename To, typename From>
To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return from_float<To>(to_float(value));
  }
}

// Element i of a column of a panel.
template <typename To>
int64_t element_index(int64_t i, int64_t column) {
  if constexpr (std::is_same_v<To, Bf16>) {
    return (i / 2 * kPanelColumns + column) * 2 + i % 2;
  } else {
    return i * kPanelColumns + column;
  }
}

template <typename To, typename From>
void pack_column(const From* row, int64_t begin, int64_t end, int64_t column, To* panel) {
  for (int64_t i = begin; i < end; ++i) panel[element_index<To>(i, column)] = convert_element<To>(row[i]);
}

template <typename To>
void pack(const std::array<WeightRow, kPanelColumns>& rows, int64_t k, To* panel) {
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, k);
    for (int64_t column = 0; column < kPanelColumns; ++column) {
      const WeightRow& row = rows[static_cast<size_t>(column)];
      if (row.data == nullptr) continue;
      switch (row.dtype) {
        case DType::kBf16: pack_column(reinterpret_cast<const Bf16*>(row.data), begin, end, column, panel); break;
        case DType::kF16: pack_column(reinterpret_cast<const F16*>(row.data), begin, end, column, panel); break;
        default: pack_column(reinterpret_cast<const float*>(row.data), begin, end, column, panel); break;
      }
    }
  }
}

}  // namespace

void pack_panel(const std::array<WeightRow, kPanelColumns>& rows, int64_t k, const PanelLayout& layout,
                std::byte* panel) {
  std::memset(panel, 0, layout.panel_bytes(k));
  if (layout.dtype == DType::kBf16) {
    pack(rows, k, reinterpret_cast<Bf16*>(panel));
  } else {
    pack(rows, k, reinterpret_cast<float*>(panel));
  }
}

}  // namespace zp::cpu
