// How weights lie in memory on the CPU: panels of 32 output features, each [k, 32], in the order the products read
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "zp/base/math.h"
#include "zp/ops/cpu/kernels/kernels.h"
#include "zp/ops/ops.h"

namespace zp::cpu {

/// Sizes of packed weights of type A. f32: [k][32]. bf16: [k / 2][32][2], k padded with zeros to whole AMX tiles; every
/// instruction set reads the same layout. Features after n are zero.
struct PanelLayout {
  DType dtype = DType::kF32;

  [[nodiscard]] int64_t padded_k(int64_t k) const { return dtype == DType::kBf16 ? round_up<int64_t>(k, 32) : k; }
  [[nodiscard]] size_t panel_bytes(int64_t k) const {
    return static_cast<size_t>(padded_k(k) * kPanelColumns) * size_of(dtype);
  }
};

[[nodiscard]] inline int64_t panel_count(int64_t n) { return ceil_div(n, kPanelColumns); }

/// One output feature of a source matrix: k elements of a floating type, or null for a feature that is not there.
struct WeightRow {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
};

/// Packs 32 output features into one panel.
void pack_panel(const std::array<WeightRow, kPanelColumns>& rows, int64_t k, const PanelLayout& layout,
                std::byte* panel);

/// An expert's blob: panels of 16 gate features beside the 16 matching up features, then the panels of down.
struct ExpertLayout {
  /// Features of the inner layer in one gate_up panel.
  static constexpr int64_t kInnerColumns = kPanelColumns / 2;

  ExpertLayout(const PanelLayout& layout, const ExpertSize& size)
      : gate_up_panel_bytes(layout.panel_bytes(size.hidden)),
        down_panel_bytes(layout.panel_bytes(size.intermediate)),
        gate_up_panels(ceil_div(size.intermediate, kInnerColumns)),
        down_panels(panel_count(size.hidden)) {}

  size_t gate_up_panel_bytes;
  size_t down_panel_bytes;
  int64_t gate_up_panels;
  int64_t down_panels;

  [[nodiscard]] size_t gate_up_offset(int64_t panel) const { return static_cast<size_t>(panel) * gate_up_panel_bytes; }
  [[nodiscard]] size_t down_offset(int64_t panel) const {
    return gate_up_offset(gate_up_panels) + static_cast<size_t>(panel) * down_panel_bytes;
  }
  [[nodiscard]] size_t blob_bytes() const { return round_up<size_t>(down_offset(down_panels), 256); }
};

}  // namespace zp::cpu
