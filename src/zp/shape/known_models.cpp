// The numbers of public config.json files. tests/shape holds the totals against those that the model cards state.
#include "zp/shape/known_models.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "zp/base/folder.h"

namespace zp {
namespace {

// The first layers dense, the others MoE.
std::vector<FeedForward> kinds(int32_t dense, int32_t moe) {
  std::vector<FeedForward> out(static_cast<size_t>(dense), FeedForward::kDense);
  out.resize(static_cast<size_t>(dense + moe), FeedForward::kMoe);
  return out;
}

// https://huggingface.co/Qwen/Qwen3-30B-A3B and https://huggingface.co/Qwen/Qwen3-235B-A22B
ModelShape qwen3(int32_t layers, int32_t hidden, int32_t query_heads, int32_t expert_intermediate) {
  return {.family = "qwen3_moe",
          .layers = layers,
          .hidden = hidden,
          .query_heads = query_heads,
          .kv_heads = 4,
          .head_dim = 128,
          .vocabulary = 151936,
          .max_positions = 40960,
          .experts = 128,
          .experts_per_token = 8,
          .expert_intermediate = expert_intermediate,
          .feed_forward = kinds(0, layers),
          .normalize_top_k = true,
          .qk_norm = true,
          .rope_theta = 1e6};
}

// https://huggingface.co/mistralai/Mixtral-8x7B-v0.1: sliding_window is null, top-2 of 8, no shared experts.
ModelShape mixtral() {
  return {.family = "mixtral",
          .layers = 32,
          .hidden = 4096,
          .query_heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .vocabulary = 32000,
          .max_positions = 32768,
          .experts = 8,
          .experts_per_token = 2,
          .expert_intermediate = 14336,
          .feed_forward = kinds(0, 32),
          .normalize_top_k = true,
          .rope_theta = 1e6,
          .norm_eps = 1e-5};
}

// https://huggingface.co/openai/gpt-oss-120b: every other layer slides over 128 tokens; sinks in all of them. Biases of
// projections, router and experts are left out (0.08 % of the parameters); experts are published in MXFP4, and are
// planned at the size asked for.
ModelShape gpt_oss_120b() {
  return {.family = "gpt_oss",
          .layers = 36,
          .hidden = 2880,
          .query_heads = 64,
          .kv_heads = 8,
          .head_dim = 64,
          .vocabulary = 201088,
          .max_positions = 131072,
          .experts = 128,
          .experts_per_token = 4,
          .expert_intermediate = 2880,
          .feed_forward = kinds(0, 36),
          .normalize_top_k = true,
          .rope_theta = 150000,
          .norm_eps = 1e-5,
          .planning = {.sliding_window = 128, .sliding_layers = 18, .attention_sinks = true}};
}

// https://huggingface.co/deepseek-ai/DeepSeek-V3, without its multi-token prediction layer, which prefill does not run.
ModelShape deepseek_v3() {
  return {.family = "deepseek_v3",
          .layers = 61,
          .hidden = 7168,
          .query_heads = 128,
          .kv_heads = 128,
          .head_dim = 128,
          .vocabulary = 129280,
          .max_positions = 163840,
          .experts = 256,
          .experts_per_token = 8,
          .expert_intermediate = 2048,
          .dense_intermediate = 18432,
          .feed_forward = kinds(3, 58),
          .normalize_top_k = true,
          .planning = {.latent_query_rank = 1536,
                       .latent_kv_rank = 512,
                       .latent_rope_dim = 64,
                       .latent_value_dim = 128,
                       .shared_intermediate = 2048}};
}

// https://huggingface.co/zai-org/GLM-4.5, without its multi-token prediction layer.
ModelShape glm_4_5() {
  return {.family = "glm4_moe",
          .layers = 92,
          .hidden = 5120,
          .query_heads = 96,
          .kv_heads = 8,
          .head_dim = 128,
          .vocabulary = 151552,
          .max_positions = 131072,
          .experts = 160,
          .experts_per_token = 8,
          .expert_intermediate = 1536,
          .dense_intermediate = 12288,
          .feed_forward = kinds(3, 89),
          .normalize_top_k = true,
          .qk_norm = true,
          .rope_theta = 1e6,
          .norm_eps = 1e-5,
          .planning = {.shared_intermediate = 1536}};
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "NAME" of "NAME" and of "ORGANISATION/NAME"; empty if it is neither.
std::string_view without_organisation(std::string_view name) {
  if (name.starts_with('.') || name.starts_with('/') || name.starts_with('~')) return {};
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return name;
  const std::string_view rest = name.substr(slash + 1);
  return rest.find('/') == std::string_view::npos ? rest : std::string_view{};
}

}  // namespace

std::span<const KnownModel> known_models() {
  static const std::array<KnownModel, 6> kModels = {{
      {"DeepSeek-V3", "https://huggingface.co/deepseek-ai/DeepSeek-V3",
       "multi-head latent attention, shared experts, routing by groups", deepseek_v3()},
      {"GLM-4.5", "https://huggingface.co/zai-org/GLM-4.5", "shared experts, sigmoid routing, attention biases",
       glm_4_5()},
      {"gpt-oss-120b", "https://huggingface.co/openai/gpt-oss-120b",
       "sliding windows, attention sinks, biases, MXFP4 experts", gpt_oss_120b()},
      {"Mixtral-8x7B", "https://huggingface.co/mistralai/Mixtral-8x7B-v0.1", "its family of checkpoints", mixtral()},
      {"Qwen3-235B-A22B", "https://huggingface.co/Qwen/Qwen3-235B-A22B", "", qwen3(94, 4096, 64, 1536)},
      {"Qwen3-30B-A3B", "https://huggingface.co/Qwen/Qwen3-30B-A3B", "", qwen3(48, 2048, 32, 768)},
  }};
  return kModels;
}

const KnownModel* find_known_model(std::string_view name) {
  const std::string wanted = lower_case(without_organisation(name));
  for (const KnownModel& model : known_models())
    if (lower_case(model.name) == wanted) return &model;
  return nullptr;
}

const KnownModel* known_by_name(const std::string& name) {
  return has_entry(name, "config.json") ? nullptr : find_known_model(name);
}

std::string known_model_names() {
  std::string out;
  for (const KnownModel& model : known_models()) {
    if (!out.empty()) out += ", ";
    out += model.name;
  }
  return out;
}

}  // namespace zp
