// Checks arguments, then issues the plain loops.
#include "zp/ops/reference/reference_ops.h"

#include <fmt/format.h>

#include "zp/base/math.h"
#include "zp/device/cpu/cpu_device.h"
#include "zp/ops/checks.h"
#include "zp/ops/drawn_host.h"
#include "zp/ops/reference/elements.h"
#include "zp/ops/reference/kernels.h"

namespace zp::reference {
namespace {

constexpr size_t kBlobAlignment = 256;

template <typename Args>
void issue(Stream& stream, void (*kernel)(const Args&), const Args& args) {
  auto* cpu_stream = dynamic_cast<cpu::CpuStream*>(&stream);
  ZP_CHECK(cpu_stream != nullptr, "an operation of the CPU is issued on a stream of another device");
  cpu_stream->enqueue([kernel, args] { kernel(args); });
}

// Converts `from` to A and returns where the next matrix goes.
std::byte* pack(const ConstTensorView& from, DType activation, std::byte* to) {
  const TensorView packed(to, activation, from.shape());
  for (int64_t i = 0; i < from.elements(); ++i) store(packed, i, static_cast<double>(load(from, i)));
  return to + packed.size_bytes();
}

}  // namespace

size_t matrix_bytes(DType activation, int64_t n, int64_t k) { return static_cast<size_t>(n * k) * size_of(activation); }

size_t expert_bytes(DType activation, const ExpertSize& size) {
  return round_up(matrix_bytes(activation, 3 * size.intermediate, size.hidden), kBlobAlignment);
}

ReferenceOps::ReferenceOps(Device& device, DType activation)
    : device_(device), activation_(activation), description_(fmt::format("reference {}", to_string(activation))) {}

PackedMatrix ReferenceOps::pack_matrix(std::span<const ConstTensorView> parts) {
  const Shape shape = checks::packed_shape(parts);
  PackedMatrix matrix;
  matrix.buffer = device_.allocate(static_cast<size_t>(shape.elements()) * size_of(activation_));
  matrix.n = shape[0];
  matrix.k = shape[1];
  std::byte* to = matrix.buffer.data();
  for (const ConstTensorView& part : parts) to = pack(part, activation_, to);
  return matrix;
}

size_t ReferenceOps::expert_blob_bytes(const ExpertSize& size) const { return expert_bytes(activation_, size); }

void ReferenceOps::pack_expert(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& down,
                               std::span<std::byte> blob) const {
  checks::expert(gate, up, down, blob, expert_blob_bytes({.hidden = gate.dim(1), .intermediate = gate.dim(0)}));
  std::byte* to = blob.data();
  for (const ConstTensorView* matrix : {&gate, &up, &down}) to = pack(*matrix, activation_, to);
  // The bytes of a blob are compared and hashed, so the padding is defined too.
  for (; to != blob.data() + blob.size(); ++to) *to = std::byte{0};
}

PackedMatrix ReferenceOps::draw_matrix(std::span<const DrawnMatrix> parts) { return pack_drawn_matrix(*this, parts); }

void ReferenceOps::draw(Stream& stream, const DrawArgs& args) {
  checks::draw(args, activation_);
  issue(stream, &reference::draw, args);
}

void ReferenceOps::draw_expert(Stream& stream, const DrawnExpert& expert, std::byte* blob) {
  checks::draw_expert(expert, blob);
  auto* cpu_stream = dynamic_cast<cpu::CpuStream*>(&stream);
  ZP_CHECK(cpu_stream != nullptr, "an operation of the CPU is issued on a stream of another device");
  const ExpertSize size{.hidden = expert.gate.columns, .intermediate = expert.gate.rows};
  cpu_stream->enqueue([this, expert, blob, size] {
    pack_drawn_expert(*this, expert, {blob, expert_blob_bytes(size)});
  });
}

void ReferenceOps::embed(Stream& stream, const EmbedArgs& args) {
  checks::embed(args, activation_);
  issue(stream, &reference::embed, args);
}

void ReferenceOps::residual_norm(Stream& stream, const ResidualNormArgs& args) {
  checks::residual_norm(args, activation_);
  issue(stream, &reference::residual_norm, args);
}

void ReferenceOps::linear(Stream& stream, const LinearArgs& args) {
  checks::linear(args, activation_);
  issue(stream, &reference::linear, args);
}

void ReferenceOps::rope(Stream& stream, const RopeArgs& args) {
  checks::rope(args, activation_);
  issue(stream, &reference::rope, args);
}

void ReferenceOps::attention(Stream& stream, const AttentionArgs& args) {
  checks::attention(args, activation_);
  issue(stream, &reference::attention, args);
}

void ReferenceOps::store_kv(Stream& stream, const StoreKvArgs& args) {
  checks::store_kv(args, activation_);
  issue(stream, &reference::store_kv, args);
}

void ReferenceOps::route(Stream& stream, const RouteArgs& args) {
  checks::route(args);
  issue(stream, &reference::route, args);
}

void ReferenceOps::moe(Stream& stream, const MoeArgs& args) {
  checks::moe(args, activation_);
  issue(stream, &reference::moe, args);
  if (args.norm_follows()) issue(stream, &reference::residual_norm, args.norm_of_out());
}

void ReferenceOps::swiglu(Stream& stream, const SwigluArgs& args) {
  checks::swiglu(args, activation_);
  issue(stream, &reference::swiglu, args);
}

void ReferenceOps::gather_rows(Stream& stream, const GatherRowsArgs& args) {
  checks::gather_rows(args, activation_);
  issue(stream, &reference::gather_rows, args);
}

void ReferenceOps::convert(Stream& stream, const ConvertArgs& args) {
  checks::convert(args, activation_);
  issue(stream, &reference::convert, args);
}

void ReferenceOps::combine(Stream& stream, const CombineArgs& args) {
  checks::combine(args, activation_);
  issue(stream, &reference::combine, args);
}

void ReferenceOps::head(Stream& stream, const HeadArgs& args) {
  checks::head(args, activation_);
  issue(stream, &reference::head, args);
}

}  // namespace zp::reference
