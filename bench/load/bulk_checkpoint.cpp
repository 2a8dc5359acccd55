// Format: https://huggingface.co/docs/safetensors: u64 header size (little endian), JSON header, data.
#include "bench/load/bulk_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "zp/base/error.h"
#include "zp/base/thread_pool.h"

namespace zp::bench {
namespace {

struct StoredMatrix {
  std::string name;
  int64_t rows = 0;
  int64_t columns = 0;  // 0: a vector of `rows`
  [[nodiscard]] int64_t bytes() const { return rows * std::max<int64_t>(columns, 1) * 2; }
};

// bf16 numbers of about 0.01, positive and negative, to be written again and again. Its size is odd, so that matrices
// differ.
std::vector<uint16_t> some_numbers() {
  std::mt19937 random(kCheckpointSeed);
  std::vector<uint16_t> numbers((size_t{4} << 20) + 1);
  for (uint16_t& number : numbers) {
    const auto bits = static_cast<uint32_t>(random());
    number = static_cast<uint16_t>((bits & 0x8000U) | 0x3c00U | (bits & 0x7fU));
  }
  return numbers;
}

void write_shard(const std::filesystem::path& path, const std::vector<StoredMatrix>& matrices,
                 const std::vector<uint16_t>& numbers) {
  std::string header = "{";
  int64_t offset = 0;
  for (const StoredMatrix& m : matrices) {
    header +=
        fmt::format(R"({}"{}":{{"dtype":"BF16","shape":[{}{}],"data_offsets":[{},{}]}})", header.size() > 1 ? "," : "",
                    m.name, m.rows, m.columns > 0 ? fmt::format(",{}", m.columns) : "", offset, offset + m.bytes());
    offset += m.bytes();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t header_bytes = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  const auto block_bytes = static_cast<int64_t>(numbers.size() * sizeof(numbers[0]));
  for (int64_t left = offset; left > 0; left -= block_bytes)
    file.write(reinterpret_cast<const char*>(numbers.data()), std::min(left, block_bytes));
  file.close();
  if (!file) fail(ErrorCode::kIo, "cannot write {} ({} bytes)", path.string(), offset);
}

std::vector<StoredMatrix> layer_matrices(const ModelShape& m, int32_t l) {
  const std::string layer = fmt::format("model.layers.{}.", l);
  const int64_t heads = int64_t{m.query_heads} * m.head_dim;
  const int64_t kv = int64_t{m.kv_heads} * m.head_dim;
  std::vector<StoredMatrix> matrices = {
      {layer + "input_layernorm.weight", m.hidden},         {layer + "post_attention_layernorm.weight", m.hidden},
      {layer + "self_attn.q_proj.weight", heads, m.hidden}, {layer + "self_attn.k_proj.weight", kv, m.hidden},
      {layer + "self_attn.v_proj.weight", kv, m.hidden},    {layer + "self_attn.o_proj.weight", m.hidden, heads},
      {layer + "self_attn.q_norm.weight", m.head_dim},      {layer + "self_attn.k_norm.weight", m.head_dim},
      {layer + "mlp.gate.weight", m.experts, m.hidden}};
  for (int32_t e = 0; e < m.experts; ++e) {
    const std::string expert = fmt::format("{}mlp.experts.{}.", layer, e);
    matrices.push_back({expert + "gate_proj.weight", m.expert_intermediate, m.hidden});
    matrices.push_back({expert + "up_proj.weight", m.expert_intermediate, m.hidden});
    matrices.push_back({expert + "down_proj.weight", m.hidden, m.expert_intermediate});
  }
  return matrices;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) fail(ErrorCode::kIo, "cannot write {}", path.string());
}

}  // namespace

void write_bulk_checkpoint(const std::filesystem::path& folder, const ModelShape& m, int32_t threads) {
  std::vector<std::pair<std::string, std::vector<StoredMatrix>>> shards;
  for (int32_t l = 0; l < m.layers; ++l)
    shards.emplace_back(fmt::format("model-{:05}.safetensors", l), layer_matrices(m, l));
  shards.emplace_back("model-rest.safetensors",
                      std::vector<StoredMatrix>{{"model.embed_tokens.weight", m.vocabulary, m.hidden},
                                                {"lm_head.weight", m.vocabulary, m.hidden},
                                                {"model.norm.weight", m.hidden}});
  const std::vector<uint16_t> numbers = some_numbers();
  ThreadPool pool(threads);
  pool.parallel_for(std::ssize(shards), [&](int64_t i, int32_t) {
    const auto& [name, matrices] = shards[static_cast<size_t>(i)];
    write_shard(folder / name, matrices, numbers);
  });
  std::string index;
  for (const auto& [name, matrices] : shards)
    for (const StoredMatrix& matrix : matrices)
      index += fmt::format("{}\"{}\":\"{}\"", index.empty() ? "" : ",", matrix.name, name);
  write_text(folder / "model.safetensors.index.json", "{\"weight_map\":{" + index + "}}");
  write_text(
      folder / "config.json",
      fmt::format(
          R"({{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_act":"silu","hidden_size":{},
"num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},"head_dim":{},"num_experts":{},
"num_experts_per_tok":{},"moe_intermediate_size":{},"intermediate_size":{},"vocab_size":{},
"max_position_embeddings":40960,"norm_topk_prob":true,"tie_word_embeddings":false,"decoder_sparse_step":1,
"mlp_only_layers":[],"rms_norm_eps":1e-06,"rope_theta":1000000.0,"torch_dtype":"bfloat16"}}
)",
          m.hidden, m.layers, m.query_heads, m.kv_heads, m.head_dim, m.experts, m.experts_per_token,
          m.expert_intermediate, m.expert_intermediate, m.vocabulary));
}

}  // namespace zp::bench
