// How weights are packed by the device itself, from the bytes that a checkpoint stores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "zp/device/device.h"
#include "zp/ops/ops.h"
#include "zp/tensor/tensor_view.h"

namespace zp {

/// Rows of a matrix as a checkpoint stores them (f32, bf16 or f16), in device memory. Elements are aligned to their
/// size; rows may lie further apart than their elements ask for.
struct StoredRows {
  const std::byte* data = nullptr;
  DType dtype = DType::kBf16;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  ///< elements from one row to the next; at least `columns`
};

enum class ExpertMatrix : uint8_t { kGate, kUp, kDown };

/// The matrix that rows are packed into: one of make_matrix(), which stays where it is.
struct MatrixRowsArgs {
  std::byte* matrix = nullptr;  // device memory
  int64_t n = 0;
  int64_t k = 0;
  int64_t first = 0;  ///< row of the matrix that the first of the rows is
};

/// The expert that rows are packed into, and where they belong.
struct ExpertRowsArgs {
  ExpertSize size;
  std::byte* blob = nullptr;  // device memory, prepared by begin_expert()
  ExpertMatrix matrix = ExpertMatrix::kGate;
  int64_t first = 0;  ///< row of `matrix` that the first of the rows is
};

/// What an Ops object packs on its device: the same bytes as its pack_matrix() and pack_expert() make on the host. The
/// methods issue work on a stream of the device and return; several threads may call them, each with its own stream.
class DevicePacking {
 public:
  virtual ~DevicePacking() = default;
  DevicePacking(const DevicePacking&) = delete;
  DevicePacking& operator=(const DevicePacking&) = delete;

  /// A matrix whose rows are yet to be packed.
  [[nodiscard]] virtual PackedMatrix make_matrix(int64_t n, int64_t k) = 0;
  virtual void pack_rows(Stream& stream, const StoredRows& rows, const MatrixRowsArgs& args) = 0;
  /// Converts to `out`, [rows, columns] f32 or bf16, without gaps.
  virtual void convert_rows(Stream& stream, const StoredRows& rows, const TensorView& out) = 0;
  /// Makes what no row will fill of a blob what it has to be; before any row.
  virtual void begin_expert(Stream& stream, const ExpertSize& size, std::byte* blob) = 0;
  virtual void pack_expert_rows(Stream& stream, const StoredRows& rows, const ExpertRowsArgs& args) = 0;

 protected:
  DevicePacking() = default;
};

}  // namespace zp
