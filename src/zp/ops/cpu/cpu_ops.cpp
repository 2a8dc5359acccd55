// Checks arguments, then issues the fast loops.
#include "zp/ops/cpu/cpu_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "zp/ops/checks.h"
#include "zp/ops/cpu/attention.h"
#include "zp/ops/cpu/gemm.h"
#include "zp/ops/cpu/rows.h"
#include "zp/ops/drawn_host.h"

namespace zp::cpu {
namespace {

void issue(Stream& stream, std::function<void()> act) {
  auto* cpu_stream = dynamic_cast<CpuStream*>(&stream);
  ZP_CHECK(cpu_stream != nullptr, "an operation of the CPU is issued on a stream of another device");
  cpu_stream->enqueue(std::move(act));
}

WeightRow row_of(const ConstTensorView& matrix, int64_t row) {
  if (row >= matrix.dim(0)) return {};
  return {matrix.data() + static_cast<size_t>(row * matrix.dim(1)) * size_of(matrix.dtype()), matrix.dtype()};
}

}  // namespace

CpuOps::CpuOps(CpuDevice& device, Isa isa, DType activation, const OpsLimits& limits)
    : device_(device),
      workers_(device, device.pool(), isa, activation),
      moe_(device, limits, activation),
      head_(limits),
      description_(fmt::format("cpu {} ({})", zp::to_string(activation), to_string(isa))) {}

size_t CpuOps::scratch_bytes(int32_t threads, DType activation, const OpsLimits& limits) {
  return static_cast<size_t>(threads) * ThreadScratch::kBytes + Moe::scratch_bytes(limits, activation) +
         Head::scratch_bytes(limits);
}

PackedMatrix CpuOps::pack_matrix(std::span<const ConstTensorView> parts) {
  const Shape shape = checks::packed_shape(parts);
  const PanelLayout& layout = workers_.layout();
  const int64_t panels = panel_count(shape[0]);
  PackedMatrix matrix;
  matrix.n = shape[0];
  matrix.k = shape[1];
  matrix.buffer = device_.allocate(static_cast<size_t>(panels) * layout.panel_bytes(matrix.k));
  auto part = parts.begin();
  int64_t row = 0;  // of *part
  for (int64_t panel = 0; panel < panels; ++panel) {
    std::array<WeightRow, kPanelColumns> rows{};
    for (WeightRow& to : rows) {
      while (part != parts.end() && row == part->dim(0)) {
        ++part;
        row = 0;
      }
      if (part != parts.end()) to = row_of(*part, row++);
    }
    pack_panel(rows, matrix.k, layout,
               matrix.buffer.data() + static_cast<size_t>(panel) * layout.panel_bytes(matrix.k));
  }
  return matrix;
}

size_t CpuOps::expert_blob_bytes(const ExpertSize& size) const {
  return ExpertLayout(workers_.layout(), size).blob_bytes();
}

void CpuOps::pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                         std::span<std::byte> blob) const {
  const ExpertSize size{.hidden = gate.dim(1), .intermediate = gate.dim(0)};
  const ExpertLayout layout(workers_.layout(), size);
  checks::expert(gate, up, down, blob, layout.blob_bytes());
  std::array<WeightRow, kPanelColumns> rows{};
  for (int64_t panel = 0; panel < layout.gate_up_panels; ++panel) {
    for (int64_t i = 0; i < ExpertLayout::kInnerColumns; ++i) {
      const int64_t feature = panel * ExpertLayout::kInnerColumns + i;
      rows[static_cast<size_t>(i)] = row_of(gate, feature);
      rows[static_cast<size_t>(ExpertLayout::kInnerColumns + i)] = row_of(up, feature);
    }
    pack_panel(rows, size.hidden, workers_.layout(), blob.data() + layout.gate_up_offset(panel));
  }
  for (int64_t panel = 0; panel < layout.down_panels; ++panel) {
    for (int64_t i = 0; i < kPanelColumns; ++i) rows[static_cast<size_t>(i)] = row_of(down, panel * kPanelColumns + i);
    pack_panel(rows, size.intermediate, workers_.layout(), blob.data() + layout.down_offset(panel));
  }
  // The bytes of a blob are compared and hashed, so the padding is defined too.
  const size_t used = layout.down_offset(layout.down_panels);
  std::fill(blob.begin() + static_cast<std::ptrdiff_t>(used), blob.end(), std::byte{0});
}

PackedMatrix CpuOps::draw_matrix(std::span<const DrawnMatrix> parts) { return pack_drawn_matrix(*this, parts); }

void CpuOps::draw(Stream& stream, const DrawArgs& args) {
  checks::draw(args, activation_dtype());
  issue(stream, [this, args] { cpu::draw(workers_, args); });
}

void CpuOps::draw_expert(Stream& stream, const DrawnExpert& expert, std::byte* blob) {
  checks::draw_expert(expert, blob);
  const ExpertSize size{.hidden = expert.gate.columns, .intermediate = expert.gate.rows};
  issue(stream, [this, expert, blob, size] { pack_drawn_expert(*this, expert, {blob, expert_blob_bytes(size)}); });
}

void CpuOps::embed(Stream& stream, const EmbedArgs& args) {
  checks::embed(args, activation_dtype());
  issue(stream, [this, args] { cpu::embed(workers_, args); });
}

void CpuOps::residual_norm(Stream& stream, const ResidualNormArgs& args) {
  checks::residual_norm(args, activation_dtype());
  issue(stream, [this, args] { cpu::residual_norm(workers_, args); });
}

void CpuOps::linear(Stream& stream, const LinearArgs& args) {
  checks::linear(args, activation_dtype());
  issue(stream, [this, args] { cpu::linear(workers_, args); });
}

void CpuOps::rope(Stream& stream, const RopeArgs& args) {
  checks::rope(args, activation_dtype());
  issue(stream, [this, args] { cpu::rope(workers_, args); });
}

void CpuOps::attention(Stream& stream, const AttentionArgs& args) {
  checks::attention(args, activation_dtype());
  issue(stream, [this, args] { cpu::attention(workers_, args); });
}

void CpuOps::store_kv(Stream& stream, const StoreKvArgs& args) {
  checks::store_kv(args, activation_dtype());
  issue(stream, [this, args] { cpu::store_kv(workers_, args); });
}

void CpuOps::route(Stream& stream, const RouteArgs& args) {
  checks::route(args);
  issue(stream, [this, args] { cpu::route(workers_, args); });
}

void CpuOps::moe(Stream& stream, const MoeArgs& args) {
  checks::moe(args, activation_dtype());
  issue(stream, [this, args] { moe_.run(workers_, args); });
  if (args.norm_follows()) residual_norm(stream, args.norm_of_out());
}

void CpuOps::swiglu(Stream& stream, const SwigluArgs& args) {
  checks::swiglu(args, activation_dtype());
  issue(stream, [this, args] { cpu::swiglu(workers_, args); });
}

void CpuOps::gather_rows(Stream& stream, const GatherRowsArgs& args) {
  checks::gather_rows(args, activation_dtype());
  issue(stream, [this, args] { cpu::gather_rows(workers_, args); });
}

void CpuOps::convert(Stream& stream, const ConvertArgs& args) {
  checks::convert(args, activation_dtype());
  issue(stream, [this, args] { cpu::convert(workers_, args); });
}

void CpuOps::combine(Stream& stream, const CombineArgs& args) {
  checks::combine(args, activation_dtype());
  issue(stream, [this, args] { cpu::combine(workers_, args); });
}

void CpuOps::head(Stream& stream, const HeadArgs& args) {
  checks::head(args, activation_dtype());
  issue(stream, [this, args] { head_.run(workers_, args); });
}

}  // namespace zp::cpu
