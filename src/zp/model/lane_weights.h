// Dense weights by way of lanes.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "zp/device/device.h"
#include "zp/model/checkpoint.h"
#include "zp/model/load_lanes.h"
#include "zp/model/matrix_part.h"
#include "zp/ops/ops.h"
#include "zp/tensor/tensor.h"

namespace zp {

/// Weights of one device that have their memory at once, and their contents after finish(): so that all lanes have work
/// until the last piece of the last one. What it refers to outlives it.
class LaneWeights final {
 public:
  LaneWeights(const Checkpoint& checkpoint, Device& device, LoadLanes& lanes)
      : checkpoint_(checkpoint), device_(device), lanes_(lanes) {}

  /// A stored tensor, a vector or a matrix, as `dtype` (f32 or bf16). Throws as Checkpoint::tensor() does.
  [[nodiscard]] Tensor tensor(const std::string& name, const Shape& shape, DType dtype);
  /// The rows of all parts, one after another; the parts have the same columns.
  [[nodiscard]] PackedMatrix matrix(std::span<const MatrixPart> parts);
  /// Blocks until everything is there. Throws as LoadLanes::Lane::bring() does.
  void finish();

 private:
  using Job = std::function<void(LoadLanes::Lane& lane)>;
  // What a piece of a part becomes: rows, and which row of the part the first is.
  using Pack = std::function<void(Stream& stream, const StoredRows& rows, int64_t first)>;
  void add_jobs(const MatrixPart& part, const Pack& pack);

  const Checkpoint& checkpoint_;
  Device& device_;
  LoadLanes& lanes_;
  std::vector<Job> jobs_;
};

}  // namespace zp
