// A model of real shape whose weights and routes are drawn from a seed: to measure speed without a checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zp/model/weight_source.h"

namespace zp {

/// What a random model is made of, beside its shape.
struct RandomModelSpec {
  uint64_t seed = 1;
  /// How many times more tokens an expert of a layer gets than another, at most; those between follow a geometric
  /// series. 1: all get the same.
  double expert_skew = 1;
};

/// The shape of NAME: a folder with a config.json (no weights are looked for), or a model that is known by name, cut to
/// its first `layers` layers unless that is 0. Throws kNotFound for a name that is neither, kUnsupported for a known
/// model that the engine cannot run, with what it lacks, and kInvalidArgument for a cut that is no cut.
[[nodiscard]] ModelShape random_model_shape(const std::string& name, int32_t layers);

/// Norms are 1; matrices are nearly normal with a deviation of 0.02, as transformers initialises them. An element
/// depends on the seed, its tensor's name and its place alone: so it is the same on every device, rank and place of
/// experts.
///
/// Which experts a token takes is drawn too, since random weights would make no distribution that one can name: the
/// router's product and softmax run as ever, and give the experts' weights, but the experts come from a table
/// (RouteArgs::table) that has each of them exactly as often as the distribution says.
class RandomModel final : public WeightSource {
 public:
  /// Throws kInvalidArgument for a skew below 1, or so large that a token would take its commonest expert twice.
  RandomModel(ModelShape shape, const RandomModelSpec& spec);

  [[nodiscard]] const ModelShape& shape() const noexcept override { return shape_; }
  [[nodiscard]] const Family& family() const noexcept override { return *family_; }
  [[nodiscard]] DType stored_dtype() const override { return DType::kBf16; }
  [[nodiscard]] const Checkpoint* stored() const noexcept override { return nullptr; }
  [[nodiscard]] Tensor norm(const WeightTarget& target, const std::string& name, int64_t length) const override;
  [[nodiscard]] Tensor table(const WeightTarget& target, const std::string& name, const Shape& shape) const override;
  [[nodiscard]] PackedMatrix matrix(const WeightTarget& target, std::span<const MatrixPart> parts) const override;
  void expert(const Ops& ops, const ExpertParts& parts, std::span<std::byte> blob) const override;
  [[nodiscard]] std::optional<DrawnExpert> drawn_expert(const ExpertParts& parts) const override;
  [[nodiscard]] std::vector<int32_t> route_table(int32_t layer) const override;
  [[nodiscard]] bool draws_routes() const noexcept override { return true; }

  [[nodiscard]] const RandomModelSpec& spec() const noexcept { return spec_; }

 private:
  [[nodiscard]] DrawnMatrix drawn(const MatrixPart& part) const;

  ModelShape shape_;
  const Family* family_;
  RandomModelSpec spec_;
};

/// How often each of `experts` stands in a table of `rows` rows of `chosen` experts, the commonest first: their sum is
/// rows * chosen, and the first is `skew` times the last but for rounding.
[[nodiscard]] std::vector<int64_t> expert_quotas(int32_t experts, int64_t rows, int32_t chosen, double skew);

}  // namespace zp
