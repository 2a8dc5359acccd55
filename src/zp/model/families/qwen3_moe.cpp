// Qwen3-MoE. Source: transformers' configuration_qwen3_moe.py and modeling_qwen3_moe.py (defaults, which layers are
// sparse, q/k norm), and the config.json of the published checkpoints.
#include "zp/model/families/qwen3_moe.h"

#include <fmt/format.h>

#include <algorithm>

#include "zp/base/excerpt.h"

namespace zp {
namespace {

// RoPE settings stand at the top level in transformers 4 and under "rope_parameters" in transformers 5.
double read_rope_theta(const ConfigReader& config) {
  constexpr double kDefaultTheta = 10000.0;
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = config.object(key);
    if (!rope) continue;
    const std::string type = rope->text("rope_type", rope->text("type", "default"));
    if (type != "default") config.unsupported(key, fmt::format("rope type {} is not implemented", quote_excerpt(type)));
    if (rope->number("partial_rotary_factor", 1.0) != 1.0)
      config.unsupported(key, "partial rotary embeddings are not implemented");
    if (rope->has("rope_theta")) return rope->number("rope_theta");
  }
  return config.number("rope_theta", kDefaultTheta);
}

// A layer is sparse unless it is listed in mlp_only_layers or skipped by decoder_sparse_step.
std::vector<FeedForward> read_feed_forward(const ConfigReader& config, int32_t layers, int32_t experts) {
  const int32_t step = config.count("decoder_sparse_step", 1);
  if (step < 1) config.corrupt("decoder_sparse_step", "is 0; it must be at least 1");
  const std::vector<int32_t> dense = config.counts("mlp_only_layers");
  std::vector<FeedForward> kinds;
  for (int32_t layer = 0; layer < layers; ++layer) {
    const bool listed = std::ranges::find(dense, layer) != dense.end();
    const bool sparse = !listed && experts > 0 && (layer + 1) % step == 0;
    kinds.push_back(sparse ? FeedForward::kMoe : FeedForward::kDense);
  }
  return kinds;
}

void refuse_unsupported(const ConfigReader& config) {
  if (config.has("quantization_config"))
    config.unsupported("quantization_config", "quantized checkpoints are not supported");
  if (config.flag("attention_bias", false)) config.unsupported("attention_bias", "biases are not implemented");
  if (config.flag("use_sliding_window", false))
    config.unsupported("use_sliding_window", "sliding-window attention is not implemented");
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu")
    config.unsupported("hidden_act", fmt::format("{} is not implemented; only silu is", quote_excerpt(activation)));
}

class Qwen3Moe final : public Family {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "qwen3_moe"; }

  [[nodiscard]] ModelShape read_shape(const ConfigReader& config) const override {
    refuse_unsupported(config);
    constexpr int32_t kLayersMax = 4096;  // far above any real model; keeps a corrupt count from taking the memory
    ModelShape shape;
    shape.layers = config.count("num_hidden_layers");
    if (shape.layers > kLayersMax)
      config.corrupt("num_hidden_layers", fmt::format("is {}; the limit is {}", shape.layers, kLayersMax));
    shape.hidden = config.count("hidden_size");
    shape.query_heads = config.count("num_attention_heads");
    shape.kv_heads = config.count("num_key_value_heads", shape.query_heads);
    const bool dividable = shape.query_heads > 0 && shape.hidden % shape.query_heads == 0;
    shape.head_dim = dividable ? config.count("head_dim", shape.hidden / shape.query_heads) : config.count("head_dim");
    shape.vocabulary = config.count("vocab_size");
    shape.max_positions = config.count("max_position_embeddings");
    // transformers 5 writes num_local_experts, transformers 4 and the published checkpoints num_experts.
    shape.experts = config.has("num_local_experts") ? config.count("num_local_experts") : config.count("num_experts");
    shape.experts_per_token = config.count("num_experts_per_tok");
    shape.expert_intermediate = config.count("moe_intermediate_size");
    shape.dense_intermediate = config.count("intermediate_size", 0);
    shape.feed_forward = read_feed_forward(config, shape.layers, shape.experts);
    shape.normalize_top_k = config.flag("norm_topk_prob", false);
    shape.qk_norm = true;
    shape.tied_embeddings = config.flag("tie_word_embeddings", false);
    shape.rope_theta = read_rope_theta(config);
    shape.norm_eps = config.number("rms_norm_eps", 1e-6);
    return shape;
  }

  [[nodiscard]] std::string embedding() const override { return "model.embed_tokens.weight"; }
  [[nodiscard]] std::string final_norm() const override { return "model.norm.weight"; }
  [[nodiscard]] std::string head() const override { return "lm_head.weight"; }
  [[nodiscard]] std::string input_norm(int32_t layer) const override {
    return fmt::format("model.layers.{}.input_layernorm.weight", layer);
  }
  [[nodiscard]] std::string post_attention_norm(int32_t layer) const override {
    return fmt::format("model.layers.{}.post_attention_layernorm.weight", layer);
  }
  [[nodiscard]] std::string attention(int32_t layer, std::string_view part) const override {
    return fmt::format("model.layers.{}.self_attn.{}.weight", layer, part);
  }
  [[nodiscard]] std::string router(int32_t layer) const override {
    return fmt::format("model.layers.{}.mlp.gate.weight", layer);
  }
  [[nodiscard]] std::string expert(int32_t layer, int32_t expert, std::string_view part) const override {
    return fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", layer, expert, part);
  }
  [[nodiscard]] std::string dense(int32_t layer, std::string_view part) const override {
    return fmt::format("model.layers.{}.mlp.{}.weight", layer, part);
  }
};

}  // namespace

const Family& qwen3_moe_family() {
  static const Qwen3Moe family;
  return family;
}

}  // namespace zp
