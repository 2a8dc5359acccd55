// How config.json of Qwen3-MoE is read, and which ones are refused by name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "zp/model/checkpoint.h"

namespace zp {
namespace {

using nlohmann::json;
using test::expect_error;
using test::TemporaryFolder;

// The published config.json of Qwen3-30B-A3B, in transformers 4's form.
json published() {
  return json::parse(R"({
    "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "decoder_sparse_step": 1, "head_dim": 128,
    "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960,
    "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
    "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
    "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_sliding_window": false,
    "vocab_size": 151936})");
}

ModelConfig read(const json& config) {
  const TemporaryFolder folder;
  folder.write("config.json", config.dump());
  return read_model_config(folder.path());
}

void expect_refused(const json& config, ErrorCode code, std::initializer_list<std::string_view> parts) {
  expect_error([&] { (void)read(config); }, code, parts);
}

TEST(ModelConfig, ReadsThePublishedForm) {
  const ModelConfig config = read(published());
  EXPECT_EQ(config.stored_dtype, "bfloat16");
  EXPECT_EQ(config.shape.layers, 48);
  EXPECT_EQ(config.shape.hidden, 2048);
  EXPECT_EQ(config.shape.query_heads, 32);
  EXPECT_EQ(config.shape.kv_heads, 4);
  EXPECT_EQ(config.shape.head_dim, 128);
  EXPECT_EQ(config.shape.experts, 128);
  EXPECT_EQ(config.shape.experts_per_token, 8);
  EXPECT_EQ(config.shape.expert_intermediate, 768);
  EXPECT_EQ(config.shape.vocabulary, 151936);
  EXPECT_EQ(config.shape.rope_theta, 1e6);
  EXPECT_EQ(config.shape.moe_layers(), 48);
  EXPECT_TRUE(config.shape.normalize_top_k);
  EXPECT_FALSE(config.shape.tied_embeddings);
}

TEST(ModelConfig, ReadsTransformers5Names) {
  json config = published();
  config["num_local_experts"] = config["num_experts"];
  config.erase("num_experts");
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  EXPECT_EQ(read(config).shape.experts, 128);
  EXPECT_EQ(read(config).shape.rope_theta, 5e5);
}

TEST(ModelConfig, SparseStepAndDenseListDecideTheLayers) {
  json config = published();
  config["num_hidden_layers"] = 6;
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3};
  const auto kinds = read(config).shape.feed_forward;
  const auto d = FeedForward::kDense;
  const auto m = FeedForward::kMoe;
  EXPECT_EQ(kinds, (std::vector<FeedForward>{d, m, d, d, d, m}));  // layers 1, 3 and 5 are even ones; 3 is listed
}

TEST(ModelConfig, RefusesWhatChangesResultsAndIsNotImplemented) {
  json config = published();
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  expect_refused(config, ErrorCode::kUnsupported, {"rope_scaling", "yarn"});
  config = published();
  config["attention_bias"] = true;
  expect_refused(config, ErrorCode::kUnsupported, {"attention_bias"});
  config = published();
  config["hidden_act"] = "gelu";
  expect_refused(config, ErrorCode::kUnsupported, {"hidden_act", "gelu"});
  config = published();
  config["use_sliding_window"] = true;
  expect_refused(config, ErrorCode::kUnsupported, {"use_sliding_window"});
  config = published();
  config["quantization_config"] = {{"quant_method", "fp8"}};
  expect_refused(config, ErrorCode::kUnsupported, {"quantization_config"});
  config = published();
  config["model_type"] = "llama";
  expect_refused(config, ErrorCode::kUnsupported, {"llama", "qwen3_moe"});
}

TEST(ModelConfig, NamesMissingAndWrongKeys) {
  json config = published();
  config.erase("hidden_size");
  expect_refused(config, ErrorCode::kCorrupt, {"config.json", "hidden_size", "missing"});
  config = published();
  config["num_experts"] = "many";
  expect_refused(config, ErrorCode::kCorrupt, {"num_experts"});
  config = published();
  config["num_key_value_heads"] = 5;
  expect_refused(config, ErrorCode::kCorrupt, {"kv_heads 5", "query_heads 32"});
  config = published();
  config["num_experts_per_tok"] = 129;
  expect_refused(config, ErrorCode::kCorrupt, {"129", "128"});
  config = published();
  config["num_hidden_layers"] = -3;
  expect_refused(config, ErrorCode::kCorrupt, {"num_hidden_layers", "-3"});
  config = published();
  config["num_hidden_layers"] = 2000000000;
  expect_refused(config, ErrorCode::kCorrupt, {"num_hidden_layers", "2000000000", "4096"});
  expect_refused(json::array(), ErrorCode::kCorrupt, {"object"});
}

}  // namespace
}  // namespace zp
