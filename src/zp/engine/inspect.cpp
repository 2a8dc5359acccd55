// Reports on a checkpoint without loading it.
#include "zeroprefill/engine.h"
#include "zp/engine/setup.h"
#include "zp/model/weights.h"
#include "zp/ops/ops.h"
#include "zp/shape/flops.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp {
namespace {

constexpr int64_t kBf16Bytes = 2;

void add_costs(const ModelShape& m, ModelReport& report) {
  const ParameterCounts parameters = parameter_counts(m);
  report.parameters = parameters.total();
  const int64_t unused_experts = m.experts > 0 ? parameters.experts / m.experts * (m.experts - m.experts_per_token) : 0;
  report.active_parameters = parameters.total() - unused_experts;
  report.linear_flops_per_token = linear_flops_all_layers(m).total();
  report.attention_flops_per_token_pair = attention_flops(m, {.prefix = 0, .suffix = 1}) * m.layers;
  report.head_flops_per_row = head_flops(m);
  report.weight_bytes_bf16 = static_cast<uint64_t>(parameters.total() * kBf16Bytes);
  report.expert_bytes_bf16 = static_cast<uint64_t>(parameters.experts * kBf16Bytes);
  report.kv_bytes_per_token_bf16 = static_cast<uint64_t>(kv_bytes_per_token(m, kBf16Bytes));
}

void add_memory_plan(const ModelFiles& files, ModelReport& report) {
  EngineConfig config;
  config.model = files.checkpoint().folder();
  try {
    report.cpu_memory_plan = decide_setup(config, files).memory;
  } catch (const Error& error) {
    report.problems.emplace_back(error.what());
  }
}

void add_tokenizer_problems(const std::filesystem::path& folder, int32_t vocabulary, ModelReport& report) {
  try {
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(folder);
    if (tokenizer->size() > vocabulary)
      report.problems.push_back(
          fmt::format("the tokenizer has {} tokens, the model's vocabulary only {}", tokenizer->size(), vocabulary));
  } catch (const Error& error) {
    report.problems.emplace_back(error.what());
  }
}

}  // namespace

ModelReport inspect_model(const std::filesystem::path& folder) {
  const ModelConfig config = read_model_config(folder);
  const ModelShape& m = config.shape;
  ModelReport report;
  report.family = m.family;
  report.stored_dtype = config.stored_dtype;
  report.layers = m.layers;
  report.moe_layers = m.moe_layers();
  report.hidden = m.hidden;
  report.query_heads = m.query_heads;
  report.kv_heads = m.kv_heads;
  report.head_dim = m.head_dim;
  report.experts = m.experts;
  report.experts_per_token = m.experts_per_token;
  report.expert_intermediate = m.expert_intermediate;
  report.dense_intermediate = m.dense_intermediate;
  report.vocabulary = m.vocabulary;
  report.max_positions = m.max_positions;
  report.tied_embeddings = m.tied_embeddings;
  add_costs(m, report);
  try {
    const ModelFiles files(folder);
    report.checkpoint_bytes = files.checkpoint().total_bytes();
    report.checkpoint_files = files.checkpoint().file_count();
    report.problems = files.problems();
    if (report.problems.empty()) add_memory_plan(files, report);
  } catch (const Error& error) {
    report.problems.emplace_back(error.what());
  }
  add_tokenizer_problems(folder, m.vocabulary, report);
  return report;
}

}  // namespace zp
