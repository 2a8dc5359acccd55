// Loads and packs weights.
#include "zp/model/weights.h"

#include <array>
#include <cmath>
#include <cstring>
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

// The features of some heads.
IndexRange features_of(IndexRange heads, int32_t head_dim) {
  return {.begin = heads.begin * head_dim, .count = heads.count * head_dim};
}

// A part as a matrix of its own: a view into the file, or, if it is not whole rows, a copy in `copied`.
ConstTensorView view_part(const Checkpoint& checkpoint, const MatrixPart& part, std::vector<std::byte>& copied) {
  const ConstTensorView rows = checkpoint.tensor(part.name, part.whole).rows(part.rows.begin, part.rows.count);
  checkpoint.fetch(part.name);
  if (part.columns.count == part.whole[1]) return rows;
  const size_t element = size_of(rows.dtype());
  const size_t from_bytes = static_cast<size_t>(part.whole[1]) * element;
  const size_t to_bytes = static_cast<size_t>(part.columns.count) * element;
  copied.resize(static_cast<size_t>(part.rows.count) * to_bytes);
  for (size_t r = 0; r < static_cast<size_t>(part.rows.count); ++r)
    std::memcpy(copied.data() + r * to_bytes,
                rows.data() + r * from_bytes + static_cast<size_t>(part.columns.begin) * element, to_bytes);
  return {copied.data(), rows.dtype(), {part.rows.count, part.columns.count}};
}

Tensor upload(const WeightTarget& target, std::span<const std::byte> bytes, DType dtype, const Shape& shape) {
  Tensor tensor(target.device, dtype, shape);
  target.stream.copy(tensor.view().data(), bytes.data(), bytes.size());
  target.stream.synchronize();
  return tensor;
}

// A stored tensor, converted; its pages are let go.
Tensor load_tensor(const Checkpoint& checkpoint, const WeightTarget& target, const std::string& name, DType dtype,
                   const Shape& shape) {
  if (target.lanes != nullptr) return target.lanes->tensor(name, shape, dtype);
  const ConstTensorView stored = checkpoint.tensor(name, shape);
  checkpoint.fetch(name);
  std::vector<std::byte> converted(static_cast<size_t>(stored.elements()) * size_of(dtype));
  convert_elements(stored, dtype, converted);
  checkpoint.discard(name);
  return upload(target, converted, dtype, shape);
}

// What layers are loaded with.
struct LayerLoader {
  const WeightSource& source;
  const ModelShard& shard;
  const WeightTarget& target;

  [[nodiscard]] PackedMatrix matrix(const std::vector<MatrixPart>& parts) const { return source.matrix(target, parts); }
  [[nodiscard]] Tensor routes(int32_t layer) const {
    const std::vector<int32_t> table = source.route_table(layer);
    return upload(target, std::as_bytes(std::span(table)), DType::kI32,
                  {kRouteTableRows, source.shape().experts_per_token});
  }
};

LayerWeights load_layer(const LayerLoader& from, int32_t l) {
  const auto& [source, shard, target] = from;
  const ModelShape& m = source.shape();
  const Family& family = source.family();
  const IndexRange query = features_of(shard.query_heads, m.head_dim);
  const IndexRange kv = features_of(shard.kv_heads, m.head_dim);
  const int64_t q_dim = int64_t{m.query_heads} * m.head_dim;
  const int64_t kv_dim = int64_t{m.kv_heads} * m.head_dim;
  LayerWeights layer;
  layer.input_norm = source.norm(target, family.input_norm(l), m.hidden);
  layer.post_attention_norm = source.norm(target, family.post_attention_norm(l), m.hidden);
  layer.qkv = from.matrix({some_rows(family.attention(l, "q_proj"), {q_dim, m.hidden}, query),
                           some_rows(family.attention(l, "k_proj"), {kv_dim, m.hidden}, kv),
                           some_rows(family.attention(l, "v_proj"), {kv_dim, m.hidden}, kv)});
  layer.attention_out = from.matrix({some_columns(family.attention(l, "o_proj"), {m.hidden, q_dim}, query)});
  if (m.qk_norm) {
    layer.q_norm = source.norm(target, family.attention(l, "q_norm"), m.head_dim);
    layer.k_norm = source.norm(target, family.attention(l, "k_norm"), m.head_dim);
  }
  if (m.feed_forward[static_cast<size_t>(l)] == FeedForward::kMoe) {
    layer.router = from.matrix({some_rows(family.router(l), {m.experts, m.hidden}, {0, m.experts})});
    if (source.draws_routes()) layer.routes = from.routes(l);
  } else {
    const Shape wide{m.dense_intermediate, m.hidden};
    const IndexRange inner = shard.dense_intermediate;
    layer.gate_up = from.matrix(
        {some_rows(family.dense(l, "gate_proj"), wide, inner), some_rows(family.dense(l, "up_proj"), wide, inner)});
    layer.down = from.matrix({some_columns(family.dense(l, "down_proj"), {m.hidden, m.dense_intermediate}, inner)});
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

Tensor ModelFiles::norm(const WeightTarget& target, const std::string& name, int64_t length) const {
  return load_tensor(checkpoint_, target, name, DType::kF32, {length});
}

Tensor ModelFiles::table(const WeightTarget& target, const std::string& name, const Shape& shape) const {
  return load_tensor(checkpoint_, target, name, target.ops.activation_dtype(), shape);
}

PackedMatrix ModelFiles::matrix(const WeightTarget& target, std::span<const MatrixPart> parts) const {
  if (target.lanes != nullptr) return target.lanes->matrix(parts);
  std::vector<std::vector<std::byte>> copies(parts.size());
  std::vector<ConstTensorView> views;
  for (size_t i = 0; i < parts.size(); ++i) views.push_back(view_part(checkpoint_, parts[i], copies[i]));
  PackedMatrix packed = target.ops.pack_matrix(views);
  for (const MatrixPart& part : parts) checkpoint_.discard(part.name);
  return packed;
}

void ModelFiles::expert(const Ops& ops, const ExpertParts& parts, std::span<std::byte> blob) const {
  const std::array<const MatrixPart*, 3> all = {&parts.gate, &parts.up, &parts.down};
  std::array<std::vector<std::byte>, 3> copies;
  std::array<ConstTensorView, 3> views;
  for (size_t i = 0; i < all.size(); ++i) views[i] = view_part(checkpoint_, *all[i], copies[i]);
  ops.pack_expert(views[0], views[1], views[2], blob);
  for (const MatrixPart* part : all) checkpoint_.discard(part->name);
}

ModelWeights load_weights(const WeightSource& source, Device& device, Ops& ops, LoadLanes* lanes) {
  return load_weights(source, whole_model(source.shape()), device, ops, lanes);
}

ModelWeights load_weights(const WeightSource& source, const ModelShard& shard, Device& device, Ops& ops,
                          LoadLanes* lanes) {
  const ModelShape& m = source.shape();
  const Family& family = source.family();
  const std::unique_ptr<Stream> stream = device.create_stream("load");
  std::optional<LaneWeights> by_lanes;
  if (lanes != nullptr && source.stored() != nullptr) by_lanes.emplace(*source.stored(), device, *lanes);
  const WeightTarget target{device, ops, *stream, by_lanes ? &*by_lanes : nullptr};
  const LayerLoader loader{source, shard, target};
  ModelWeights weights;
  const Shape table{m.vocabulary, m.hidden};
  if (shard.layers.begin == 0) weights.embedding = source.table(target, family.embedding(), table);
  if (shard.layers.end() == m.layers) {
    const std::string head = m.tied_embeddings ? family.embedding() : family.head();
    weights.head = loader.matrix({some_rows(head, table, {0, m.vocabulary})});
    weights.final_norm = source.norm(target, family.final_norm(), m.hidden);
  }
  const std::vector<float> frequencies = inverse_frequencies(m);
  weights.inverse_frequencies =
      upload(target, std::as_bytes(std::span(frequencies)), DType::kF32, {static_cast<int64_t>(frequencies.size())});
  for (int32_t l = shard.layers.begin; l < shard.layers.end(); ++l) weights.layers.push_back(load_layer(loader, l));
  if (by_lanes) by_lanes->finish();
  return weights;
}

ExpertReader::ExpertReader(const WeightSource& source, Ops& ops)
    : ExpertReader(source, ops, whole_model(source.shape())) {}

ExpertReader::ExpertReader(const WeightSource& source, Ops& ops, const ModelShard& shard)
    : source_(source),
      ops_(ops),
      layers_(shard.layers),
      intermediate_(shard.expert_intermediate),
      blob_bytes_(ops.expert_blob_bytes({source.shape().hidden, shard.expert_intermediate.count})) {}

ExpertParts ExpertReader::parts_of(int32_t layer, int32_t expert) const {
  const ModelShape& m = source_.shape();
  const Family& family = source_.family();
  const int32_t l = layers_.begin + layer;
  const Shape wide{m.expert_intermediate, m.hidden};
  return {some_rows(family.expert(l, expert, "gate_proj"), wide, intermediate_),
          some_rows(family.expert(l, expert, "up_proj"), wide, intermediate_),
          some_columns(family.expert(l, expert, "down_proj"), {m.hidden, m.expert_intermediate}, intermediate_)};
}

void ExpertReader::read(int32_t layer, int32_t expert, std::span<std::byte> blob) const {
  source_.expert(ops_, parts_of(layer, expert), blob);
}

void ExpertReader::bring(int32_t layer, int32_t expert, LoadLanes::Lane& lane, DevicePacking& packing,
                         std::byte* blob) const {
  ZP_CHECK(source_.stored() != nullptr, "expert {} of layer {} lies in no file", expert, layer);
  const ExpertSize size{source_.shape().hidden, intermediate_.count};
  packing.begin_expert(lane.stream(), size, blob);
  const ExpertParts parts = parts_of(layer, expert);
  for (const auto& [part, matrix] :
       {std::pair{&parts.gate, ExpertMatrix::kGate}, std::pair{&parts.up, ExpertMatrix::kUp},
        std::pair{&parts.down, ExpertMatrix::kDown}})
    lane.bring(*source_.stored(), *part, [&, matrix = matrix](const StoredRows& rows, int64_t first) {
      packing.pack_expert_rows(lane.stream(), rows, {.size = size, .blob = blob, .matrix = matrix, .first = first});
    });
}

void ExpertReader::draw(int32_t layer, int32_t expert, Stream& stream, std::byte* blob) const {
  const std::optional<DrawnExpert> drawn = source_.drawn_expert(parts_of(layer, expert));
  ZP_CHECK(drawn.has_value(), "expert {} of layer {} lies in a file", expert, layer);
  ops_.draw_expert(stream, *drawn, blob);
}

}  // namespace zp
