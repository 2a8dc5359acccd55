// Loads and packs weights.
#include "zp/model/weights.h"

#include <array>
#include <cmath>
#include <functional>

#include "zp/base/error.h"
#include "zp/tensor/convert.h"

namespace zp {
namespace {

// Calls `visit(name, shape)` for every tensor the model needs, until it returns false.
class TensorList {
 public:
  using Visit = std::function<bool(const std::string&, const Shape&)>;
  TensorList(const ModelShape& shape, const Family& family) : m_(shape), family_(family) {}

  bool for_each(const Visit& visit) const {
    const bool whole = visit(family_.embedding(), {m_.vocabulary, m_.hidden}) &&
                       visit(family_.final_norm(), {m_.hidden}) &&
                       (m_.tied_embeddings || visit(family_.head(), {m_.vocabulary, m_.hidden}));
    for (int32_t l = 0; whole && l < m_.layers; ++l)
      if (!attention(l, visit) || !feed_forward(l, visit)) return false;
    return whole;
  }

 private:
  [[nodiscard]] bool attention(int32_t l, const Visit& visit) const {
    const int64_t q_dim = int64_t{m_.query_heads} * m_.head_dim;
    const int64_t kv_dim = int64_t{m_.kv_heads} * m_.head_dim;
    return visit(family_.input_norm(l), {m_.hidden}) && visit(family_.post_attention_norm(l), {m_.hidden}) &&
           visit(family_.attention(l, "q_proj"), {q_dim, m_.hidden}) &&
           visit(family_.attention(l, "k_proj"), {kv_dim, m_.hidden}) &&
           visit(family_.attention(l, "v_proj"), {kv_dim, m_.hidden}) &&
           visit(family_.attention(l, "o_proj"), {m_.hidden, q_dim}) &&
           (!m_.qk_norm || (visit(family_.attention(l, "q_norm"), {m_.head_dim}) &&
                            visit(family_.attention(l, "k_norm"), {m_.head_dim})));
  }
  [[nodiscard]] bool feed_forward(int32_t l, const Visit& visit) const {
    if (m_.feed_forward[static_cast<size_t>(l)] == FeedForward::kDense)
      return visit(family_.dense(l, "gate_proj"), {m_.dense_intermediate, m_.hidden}) &&
             visit(family_.dense(l, "up_proj"), {m_.dense_intermediate, m_.hidden}) &&
             visit(family_.dense(l, "down_proj"), {m_.hidden, m_.dense_intermediate});
    bool whole = visit(family_.router(l), {m_.experts, m_.hidden});
    for (int32_t e = 0; whole && e < m_.experts; ++e)
      whole = visit(family_.expert(l, e, "gate_proj"), {m_.expert_intermediate, m_.hidden}) &&
              visit(family_.expert(l, e, "up_proj"), {m_.expert_intermediate, m_.hidden}) &&
              visit(family_.expert(l, e, "down_proj"), {m_.hidden, m_.expert_intermediate});
    return whole;
  }

  const ModelShape& m_;
  const Family& family_;
};

// Loads one tensor after another, letting each one's pages go once it has been packed.
class WeightLoader {
 public:
  WeightLoader(const ModelFiles& files, Device& device, Ops& ops)
      : checkpoint_(files.checkpoint()), device_(device), ops_(ops), stream_(device.create_stream("load")) {}

  Tensor tensor(const std::string& name, const Shape& shape, DType dtype) {
    const ConstTensorView stored = checkpoint_.tensor(name, shape);
    std::vector<std::byte> converted(static_cast<size_t>(stored.elements()) * size_of(dtype));
    convert_elements(stored, dtype, converted);
    checkpoint_.discard(name);
    return upload(converted, dtype, shape);
  }

  // Rows of all named tensors, one after another: each is [rows, k].
  PackedMatrix matrix(std::initializer_list<std::pair<std::string, int64_t>> names_and_rows, int64_t k) {
    std::vector<ConstTensorView> parts;
    for (const auto& [name, rows] : names_and_rows) parts.push_back(checkpoint_.tensor(name, {rows, k}));
    PackedMatrix packed = ops_.pack_matrix(parts);
    for (const auto& [name, rows] : names_and_rows) checkpoint_.discard(name);
    return packed;
  }

  Tensor upload(std::span<const std::byte> bytes, DType dtype, const Shape& shape) {
    Tensor tensor(device_, dtype, shape);
    stream_->copy(tensor.view().data(), bytes.data(), bytes.size());
    stream_->synchronize();
    return tensor;
  }

 private:
  const Checkpoint& checkpoint_;
  Device& device_;
  Ops& ops_;
  std::unique_ptr<Stream> stream_;
};

LayerWeights load_layer(const ModelShape& m, const Family& family, int32_t l, WeightLoader& loader) {
  const int64_t q_dim = int64_t{m.query_heads} * m.head_dim;
  const int64_t kv_dim = int64_t{m.kv_heads} * m.head_dim;
  LayerWeights layer;
  layer.input_norm = loader.tensor(family.input_norm(l), {m.hidden}, DType::kF32);
  layer.post_attention_norm = loader.tensor(family.post_attention_norm(l), {m.hidden}, DType::kF32);
  layer.qkv = loader.matrix({{family.attention(l, "q_proj"), q_dim},
                             {family.attention(l, "k_proj"), kv_dim},
                             {family.attention(l, "v_proj"), kv_dim}},
                            m.hidden);
  layer.attention_out = loader.matrix({{family.attention(l, "o_proj"), m.hidden}}, q_dim);
  if (m.qk_norm) {
    layer.q_norm = loader.tensor(family.attention(l, "q_norm"), {m.head_dim}, DType::kF32);
    layer.k_norm = loader.tensor(family.attention(l, "k_norm"), {m.head_dim}, DType::kF32);
  }
  if (m.feed_forward[static_cast<size_t>(l)] == FeedForward::kMoe) {
    layer.router = loader.matrix({{family.router(l), m.experts}}, m.hidden);
  } else {
    layer.gate_up = loader.matrix(
        {{family.dense(l, "gate_proj"), m.dense_intermediate}, {family.dense(l, "up_proj"), m.dense_intermediate}},
        m.hidden);
    layer.down = loader.matrix({{family.dense(l, "down_proj"), m.hidden}}, m.dense_intermediate);
  }
  return layer;
}

// theta^(-2i / D), computed in float as transformers does, so that angles agree to the bit.
std::vector<float> inverse_frequencies(const ModelShape& m) {
  std::vector<float> frequencies;
  for (int32_t i = 0; i < m.head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(m.head_dim);
    frequencies.push_back(1.0F / std::pow(static_cast<float>(m.rope_theta), exponent));
  }
  return frequencies;
}

}  // namespace

ModelFiles::ModelFiles(const std::filesystem::path& folder)
    : config_(read_model_config(folder)), family_(find_family(config_.shape.family)), checkpoint_(folder) {}

DType ModelFiles::stored_dtype() const {
  return checkpoint_.tensor(family_->embedding(), {shape().vocabulary, shape().hidden}).dtype();
}

std::vector<std::string> ModelFiles::problems() const {
  constexpr int64_t kListedMax = 50;
  // A count in config.json that is far off would have us look for tensors without end.
  const auto missing_max = static_cast<int64_t>(checkpoint_.tensor_count()) + kListedMax;
  std::vector<std::string> problems;
  int64_t count = 0;
  (void)TensorList(shape(), *family_).for_each([&](const std::string& name, const Shape& expected) {
    try {
      (void)checkpoint_.tensor(name, expected);
    } catch (const Error& error) {
      if (++count <= kListedMax) problems.emplace_back(error.what());
    }
    return count < missing_max;
  });
  if (count > kListedMax) problems.push_back(fmt::format("and {} or more tensors besides", count - kListedMax));
  return problems;
}

ModelWeights load_weights(const ModelFiles& files, Device& device, Ops& ops) {
  const ModelShape& m = files.shape();
  const Family& family = files.family();
  WeightLoader loader(files, device, ops);
  ModelWeights weights;
  weights.embedding = loader.tensor(family.embedding(), {m.vocabulary, m.hidden}, ops.activation_dtype());
  weights.head = loader.matrix({{m.tied_embeddings ? family.embedding() : family.head(), m.vocabulary}}, m.hidden);
  weights.final_norm = loader.tensor(family.final_norm(), {m.hidden}, DType::kF32);
  const std::vector<float> frequencies = inverse_frequencies(m);
  weights.inverse_frequencies =
      loader.upload(std::as_bytes(std::span(frequencies)), DType::kF32, {static_cast<int64_t>(frequencies.size())});
  for (int32_t l = 0; l < m.layers; ++l) weights.layers.push_back(load_layer(m, family, l, loader));
  return weights;
}

ExpertReader::ExpertReader(const ModelFiles& files, const Ops& ops)
    : files_(files),
      ops_(ops),
      blob_bytes_(ops.expert_blob_bytes({files.shape().hidden, files.shape().expert_intermediate})) {}

void ExpertReader::read(int32_t layer, int32_t expert, std::span<std::byte> blob) const {
  const ModelShape& m = files_.shape();
  const Checkpoint& checkpoint = files_.checkpoint();
  const std::array<std::string, 3> names = {files_.family().expert(layer, expert, "gate_proj"),
                                            files_.family().expert(layer, expert, "up_proj"),
                                            files_.family().expert(layer, expert, "down_proj")};
  ops_.pack_expert(checkpoint.tensor(names[0], {m.expert_intermediate, m.hidden}),
                   checkpoint.tensor(names[1], {m.expert_intermediate, m.hidden}),
                   checkpoint.tensor(names[2], {m.hidden, m.expert_intermediate}), blob);
  for (const std::string& name : names) checkpoint.discard(name);
}

}  // namespace zp
