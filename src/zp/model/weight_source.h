// Where a model's weights come from: a checkpoint's files, or a seed.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zp/device/device.h"
#include "zp/model/checkpoint.h"
#include "zp/model/family.h"
#include "zp/model/lane_weights.h"
#include "zp/model/matrix_part.h"
#include "zp/ops/ops.h"
#include "zp/shape/model_shape.h"
#include "zp/shape/model_shard.h"
#include "zp/tensor/tensor.h"

namespace zp {

/// The matrices of one expert.
struct ExpertParts {
  MatrixPart gate;
  MatrixPart up;
  MatrixPart down;
};

/// Where weights are made, and how.
struct WeightTarget {
  Device& device;
  Ops& ops;
  Stream& stream;
  LaneWeights* lanes = nullptr;  ///< if there are any, what is stored has its contents only after their finish()
};

/// Immutable, thread-safe. All makers block (but see WeightTarget::lanes), and throw what is wrong with the source,
/// naming the tensor.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;

  [[nodiscard]] virtual const ModelShape& shape() const noexcept = 0;
  /// What the model's tensors are called.
  [[nodiscard]] virtual const Family& family() const noexcept = 0;
  /// The element type that most of the weights have.
  [[nodiscard]] virtual DType stored_dtype() const = 0;

  /// The files that everything is read from; null where there are none.
  [[nodiscard]] virtual const Checkpoint* stored() const noexcept = 0;

  /// The weights of a norm, in f32.
  [[nodiscard]] virtual Tensor norm(const WeightTarget& target, const std::string& name, int64_t length) const = 0;
  /// The embedding, in the operations' own type.
  [[nodiscard]] virtual Tensor table(const WeightTarget& target, const std::string& name, const Shape& shape) const = 0;
  /// The rows of all parts, one after another; the parts have the same columns.
  [[nodiscard]] virtual PackedMatrix matrix(const WeightTarget& target, std::span<const MatrixPart> parts) const = 0;
  /// Packs an expert into host memory, as Ops::pack_expert() does.
  virtual void expert(const Ops& ops, const ExpertParts& parts, std::span<std::byte> blob) const = 0;

  /// What Ops::draw_expert() makes the same blob from; nothing where only expert() can.
  [[nodiscard]] virtual std::optional<DrawnExpert> drawn_expert(const ExpertParts& parts) const = 0;
  /// RouteArgs::table of a layer, [kRouteTableRows, k]; empty where the router chooses.
  [[nodiscard]] virtual std::vector<int32_t> route_table(int32_t layer) const = 0;
  /// Whether route_table() gives one.
  [[nodiscard]] virtual bool draws_routes() const noexcept = 0;

 protected:
  WeightSource() = default;
};

/// Rows of a table of routes: many more than experts, few enough to stay in a cache.
inline constexpr int64_t kRouteTableRows = 4096;

}  // namespace zp
