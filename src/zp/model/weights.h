// The replicated weights of a model (everything but the experts), packed for one device, and how experts are read.
#pragma once

#include <span>
#include <vector>

#include "zp/device/device.h"
#include "zp/model/checkpoint.h"
#include "zp/model/family.h"
#include "zp/model/load_lanes.h"
#include "zp/model/weight_source.h"
#include "zp/ops/ops.h"
#include "zp/shape/model_shape.h"
#include "zp/shape/model_shard.h"
#include "zp/tensor/tensor.h"

namespace zp {

/// One layer without its experts. Letters as in ops.h.
struct LayerWeights {
  Tensor input_norm;           // [H] f32
  PackedMatrix qkv;            // [(Q + 2G) * D, H]
  Tensor q_norm;               // [D] f32, or empty
  Tensor k_norm;               // [D] f32, or empty
  PackedMatrix attention_out;  // [H, Q * D]
  Tensor post_attention_norm;  // [H] f32
  PackedMatrix router;         // [E, H], MoE layers only
  Tensor routes;               // [kRouteTableRows, k] i32, MoE layers of a model that draws them; or empty
  PackedMatrix gate_up;        // [2 * I, H], dense layers only
  PackedMatrix down;           // [H, I], dense layers only
};

struct ModelWeights {
  Tensor embedding;            // [V, H] A
  Tensor inverse_frequencies;  // [D / 2] f32: theta^(-2i / D)
  std::vector<LayerWeights> layers;
  Tensor final_norm;  // [H] f32
  PackedMatrix head;  // [V, H]
};

/// A checkpoint that has been opened and understood.
class ModelFiles final : public WeightSource {
 public:
  /// Opens the folder. Throws as read_model_config() and Checkpoint do.
  explicit ModelFiles(const std::filesystem::path& folder);

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  [[nodiscard]] const ModelShape& shape() const noexcept override { return config_.shape; }
  [[nodiscard]] const Family& family() const noexcept override { return *family_; }
  [[nodiscard]] const Checkpoint& checkpoint() const noexcept { return checkpoint_; }
  [[nodiscard]] DType stored_dtype() const override;
  [[nodiscard]] const Checkpoint* stored() const noexcept override { return &checkpoint_; }
  [[nodiscard]] Tensor norm(const WeightTarget& target, const std::string& name, int64_t length) const override;
  [[nodiscard]] Tensor table(const WeightTarget& target, const std::string& name, const Shape& shape) const override;
  [[nodiscard]] PackedMatrix matrix(const WeightTarget& target, std::span<const MatrixPart> parts) const override;
  void expert(const Ops& ops, const ExpertParts& parts, std::span<std::byte> blob) const override;
  [[nodiscard]] std::optional<DrawnExpert> drawn_expert(const ExpertParts& /*parts*/) const override { return {}; }
  [[nodiscard]] std::vector<int32_t> route_table(int32_t /*layer*/) const override { return {}; }
  [[nodiscard]] bool draws_routes() const noexcept override { return false; }
  /// Looks at every tensor that the model needs, without reading it; one message for each problem.
  [[nodiscard]] std::vector<std::string> problems() const;

 private:
  ModelConfig config_;
  const Family* family_;
  Checkpoint checkpoint_;
};

/// Packs everything but the experts: what is stored, on the device over `lanes` if there are any, else on the host.
/// Each stored tensor is read once, tied embeddings twice. Blocks; throws what the source throws.
[[nodiscard]] ModelWeights load_weights(const WeightSource& source, Device& device, Ops& ops,
                                        LoadLanes* lanes = nullptr);
/// Packs a rank's part, for the model of shape_of(shape, shard): the heads and inner features of its layers, norms and
/// routers whole, the embedding only with the first layer, the final norm and the head only with the last.
[[nodiscard]] ModelWeights load_weights(const WeightSource& source, const ModelShard& shard, Device& device, Ops& ops,
                                        LoadLanes* lanes = nullptr);

/// Reads experts one by one into packed blobs. Thread-safe.
class ExpertReader final {
 public:
  ExpertReader(const WeightSource& source, Ops& ops);
  /// Experts as a rank with this shard has them: its layers, counted from 0, and its slice of the inner features.
  ExpertReader(const WeightSource& source, Ops& ops, const ModelShard& shard);

  [[nodiscard]] size_t blob_bytes() const noexcept { return blob_bytes_; }
  /// Packs one expert of a MoE layer into `blob` (blob_bytes() long, 256-byte aligned host memory).
  void read(int32_t layer, int32_t expert, std::span<std::byte> blob) const;
  /// The same on the device, for stored experts: issues what makes `blob`, in device memory, on the lane's stream.
  void bring(int32_t layer, int32_t expert, LoadLanes::Lane& lane, DevicePacking& packing, std::byte* blob) const;
  /// Whether the device can make experts by itself.
  [[nodiscard]] bool draws() const noexcept { return source_.draws_routes(); }
  /// If so: fills a blob in device memory with the same bytes, on `stream`. Called by one thread at a time.
  void draw(int32_t layer, int32_t expert, Stream& stream, std::byte* blob) const;

 private:
  [[nodiscard]] ExpertParts parts_of(int32_t layer, int32_t expert) const;

  const WeightSource& source_;
  Ops& ops_;
  IndexRange layers_;
  IndexRange intermediate_;
  size_t blob_bytes_;
};

}  // namespace zp
