// `zeroprefill inspect DIR`.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "zeroprefill/engine.h"
#include "zp/base/human.h"

namespace zp::app {
namespace {

struct InspectOptions {
  std::string folder;
  bool json = false;
};

std::vector<MemoryItem> memory_items(const ModelReport& r) {
  std::vector<MemoryItem> items = r.cpu_memory_plan.rank.items;
  items.insert(items.end(), r.cpu_memory_plan.host.items.begin(), r.cpu_memory_plan.host.items.end());
  return items;
}

void print_text(const ModelReport& r) {
  const auto row = [](const char* name, const std::string& value) { fmt::print("{:<22}{}\n", name, value); };
  row("family", r.family);
  row("stored as", r.stored_dtype.empty() ? "unknown" : r.stored_dtype);
  row("layers", fmt::format("{} ({} with experts)", r.layers, r.moe_layers));
  row("hidden size", fmt::format("{}", r.hidden));
  row("heads", fmt::format("{} query, {} key/value, dimension {}", r.query_heads, r.kv_heads, r.head_dim));
  if (r.moe_layers > 0)
    row("experts", fmt::format("{} a layer, {} a token, intermediate size {}", r.experts, r.experts_per_token,
                               r.expert_intermediate));
  if (r.moe_layers < r.layers) row("dense layers", fmt::format("intermediate size {}", r.dense_intermediate));
  row("vocabulary", fmt::format("{}{}", r.vocabulary, r.tied_embeddings ? ", embeddings tied" : ""));
  row("longest context", fmt::format("{} tokens", r.max_positions));
  row("parameters",
      fmt::format("{} ({} active for a token)", human_count(r.parameters), human_count(r.active_parameters)));
  row("checkpoint", fmt::format("{} in {} file(s)", human_bytes(r.checkpoint_bytes), r.checkpoint_files));
  fmt::print("\n");
  row("FLOPs a token", fmt::format("{} linear, and {} for each earlier token", human_count(r.linear_flops_per_token),
                                   human_count(r.attention_flops_per_token_pair)));
  row("FLOPs an answer", fmt::format("{} in the output head", human_count(r.head_flops_per_row)));
  row("weights", fmt::format("{} in bf16, {} of it experts; twice that in f32", human_bytes(r.weight_bytes_bf16),
                             human_bytes(r.expert_bytes_bf16)));
  row("keys and values", fmt::format("{} a token in bf16", human_bytes(r.kv_bytes_per_token_bf16)));
  const uint64_t total = r.cpu_memory_plan.total_bytes();
  // On the CPU the host's limit is that of all together.
  const uint64_t limit = r.cpu_memory_plan.host.limit_bytes;
  if (total > 0)
    row("memory on this CPU", fmt::format("{} with the default sizes; {} are free{}", human_bytes(total),
                                          human_bytes(limit), total > limit ? ", which is too little" : ""));
  for (const MemoryItem& item : memory_items(r))
    row("", fmt::format("{:>12}  {}", human_bytes(item.bytes), item.consumer));
  fmt::print("\n");
  if (r.problems.empty()) row("problems", "none found");
  for (const std::string& problem : r.problems) row("problem", problem);
}

void print_json(const ModelReport& r) {
  nlohmann::ordered_json memory = nlohmann::ordered_json::object();
  for (const MemoryItem& item : memory_items(r)) memory[item.consumer] = item.bytes;
  const nlohmann::ordered_json json = {{"family", r.family},
                                       {"stored_dtype", r.stored_dtype},
                                       {"layers", r.layers},
                                       {"moe_layers", r.moe_layers},
                                       {"hidden", r.hidden},
                                       {"query_heads", r.query_heads},
                                       {"kv_heads", r.kv_heads},
                                       {"head_dim", r.head_dim},
                                       {"experts", r.experts},
                                       {"experts_per_token", r.experts_per_token},
                                       {"expert_intermediate", r.expert_intermediate},
                                       {"dense_intermediate", r.dense_intermediate},
                                       {"vocabulary", r.vocabulary},
                                       {"max_positions", r.max_positions},
                                       {"tied_embeddings", r.tied_embeddings},
                                       {"parameters", r.parameters},
                                       {"active_parameters", r.active_parameters},
                                       {"linear_flops_per_token", r.linear_flops_per_token},
                                       {"attention_flops_per_token_pair", r.attention_flops_per_token_pair},
                                       {"head_flops_per_row", r.head_flops_per_row},
                                       {"checkpoint_bytes", r.checkpoint_bytes},
                                       {"checkpoint_files", r.checkpoint_files},
                                       {"weight_bytes_bf16", r.weight_bytes_bf16},
                                       {"expert_bytes_bf16", r.expert_bytes_bf16},
                                       {"kv_bytes_per_token_bf16", r.kv_bytes_per_token_bf16},
                                       {"cpu_memory_plan_bytes", memory},
                                       {"problems", r.problems}};
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

Command add_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      app.add_subcommand("inspect", "Say what a checkpoint is, what it takes to run it, and what is wrong with it");
  command->add_option("folder", options->folder, "Hugging Face checkpoint folder")->required();
  command->add_flag("--json", options->json, "Print one JSON object");
  return [options] {
    const ModelReport report = inspect_model(options->folder);
    options->json ? print_json(report) : print_text(report);
    return report.problems.empty() ? 0 : 1;
  };
}

}  // namespace zp::app
