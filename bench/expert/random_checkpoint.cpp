// Format: https://huggingface.co/docs/safetensors: u64 header size (little endian), JSON header, data.
#include "bench/expert/random_checkpoint.h"

#include <fmt/format.h>

#include <fstream>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "zp/base/error.h"

namespace zp::bench {
namespace {

class Writer final {
 public:
  explicit Writer(uint32_t seed) : random_(seed) {}

  /// Normal weights, or ones if `deviation` is 0.
  void add(const std::string& name, std::initializer_list<int64_t> dims, float deviation) {
    int64_t count = 1;
    std::string shape;
    for (const int64_t dim : dims) {
      count *= dim;
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", dim);
    }
    const size_t begin = values_.size() * sizeof(float);
    std::normal_distribution<float> normal(0, deviation > 0 ? deviation : 1.0F);
    for (int64_t i = 0; i < count; ++i) values_.push_back(deviation > 0 ? normal(random_) : 1.0F);
    header_ += fmt::format("{}\"{}\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                           header_.empty() ? "" : ",", name, shape, begin, values_.size() * sizeof(float));
  }
  void write(const std::filesystem::path& path) const {
    std::string header = "{" + header_ + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const uint64_t size = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size));
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    file.write(reinterpret_cast<const char*>(values_.data()),
               static_cast<std::streamsize>(values_.size() * sizeof(float)));
    file.close();
    if (!file) fail(ErrorCode::kIo, "cannot write {}", path.string());
  }

 private:
  std::mt19937 random_;
  std::string header_;
  std::vector<float> values_;
};

}  // namespace

void write_random_checkpoint(const std::filesystem::path& folder, const CheckpointShape& shape, uint32_t seed) {
  constexpr float kDeviation = 0.2F;
  const CheckpointShape& s = shape;
  const int64_t heads = int64_t{s.query_heads} * s.head_dim;
  const int64_t kv = int64_t{s.kv_heads} * s.head_dim;
  Writer writer(seed);
  writer.add("model.embed_tokens.weight", {s.vocabulary, s.hidden}, 1);
  for (int32_t l = 0; l < s.layers; ++l) {
    const std::string layer = fmt::format("model.layers.{}.", l);
    writer.add(layer + "input_layernorm.weight", {s.hidden}, 0);
    writer.add(layer + "post_attention_layernorm.weight", {s.hidden}, 0);
    writer.add(layer + "self_attn.q_proj.weight", {heads, s.hidden}, kDeviation);
    writer.add(layer + "self_attn.k_proj.weight", {kv, s.hidden}, kDeviation);
    writer.add(layer + "self_attn.v_proj.weight", {kv, s.hidden}, kDeviation);
    writer.add(layer + "self_attn.o_proj.weight", {s.hidden, heads}, kDeviation);
    writer.add(layer + "self_attn.q_norm.weight", {s.head_dim}, 0);
    writer.add(layer + "self_attn.k_norm.weight", {s.head_dim}, 0);
    writer.add(layer + "mlp.gate.weight", {s.experts, s.hidden}, kDeviation);
    for (int32_t e = 0; e < s.experts; ++e) {
      const std::string expert = fmt::format("{}mlp.experts.{}.", layer, e);
      writer.add(expert + "gate_proj.weight", {s.expert_intermediate, s.hidden}, kDeviation);
      writer.add(expert + "up_proj.weight", {s.expert_intermediate, s.hidden}, kDeviation);
      writer.add(expert + "down_proj.weight", {s.hidden, s.expert_intermediate}, kDeviation);
    }
  }
  writer.add("model.norm.weight", {s.hidden}, 0);
  writer.write(folder / "model.safetensors");
  std::ofstream config(folder / "config.json");
  config << fmt::format(
      R"({{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_act":"silu","hidden_size":{},
"num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},"head_dim":{},"num_experts":{},
"num_experts_per_tok":{},"moe_intermediate_size":{},"intermediate_size":{},"vocab_size":{},
"max_position_embeddings":{},"norm_topk_prob":true,"tie_word_embeddings":true,"decoder_sparse_step":1,
"mlp_only_layers":[],"rms_norm_eps":1e-06,"rope_theta":10000.0,"torch_dtype":"float32"}}
)",
      s.hidden, s.layers, s.query_heads, s.kv_heads, s.head_dim, s.experts, s.experts_per_token, s.expert_intermediate,
      s.expert_intermediate, s.vocabulary, s.max_positions);
  config.close();
  if (!config) fail(ErrorCode::kIo, "cannot write {}", (folder / "config.json").string());
}

}  // namespace zp::bench
