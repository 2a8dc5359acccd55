// Engine options on the command line.
#include "engine_options.h"

#include <cmath>
#include <map>
#include <optional>

namespace zp::app {
namespace {

// "2GiB", "512MiB", "0" or plain bytes.
std::optional<uint64_t> parse_bytes(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  static const std::map<std::string, uint64_t> kUnits = {{"", 1},
                                                         {"B", 1},
                                                         {"KiB", 1ULL << 10},
                                                         {"MiB", 1ULL << 20},
                                                         {"GiB", 1ULL << 30},
                                                         {"TiB", 1ULL << 40},
                                                         {"KB", 1000ULL},
                                                         {"MB", 1000000ULL},
                                                         {"GB", 1000000000ULL}};
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits);
  const auto unit = kUnits.find(digits == std::string::npos ? "" : text.substr(digits));
  double value = 0;
  size_t used = 0;
  try {
    value = std::stod(number, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (number.empty() || used != number.size() || unit == kUnits.end())
    fail(ErrorCode::kInvalidArgument, "{} is '{}'; it must be a size such as 0, 512MiB or 8GiB", option, text);
  value *= static_cast<double>(unit->second);
  if (!(value < 0x1p62)) fail(ErrorCode::kInvalidArgument, "{} is '{}'; the limit is 4096PiB", option, text);
  return static_cast<uint64_t>(value);
}

}  // namespace

void add_engine_options(CLI::App& command, EngineOptions& options) {
  EngineConfig& config = options.config;
  command.add_option("--model", options.model, "Hugging Face checkpoint folder")->required();
  command.add_option("--device", config.device, "cpu, cuda or cuda:N")->capture_default_str();
  command
      .add_option("--strategy", config.strategy,
                  "How ranks share the work: asyncep, or a synchronous baseline (attention+experts)")
      ->check(CLI::IsMember({"asyncep", "dp+ep", "dp+tp", "tp+ep", "tp+tp", "pp+pp"}))
      ->capture_default_str();
  command.add_option("--ranks", config.ranks, "Virtual ranks on the CPU")->capture_default_str();
  command.add_option("--threads", config.threads, "CPU threads that compute; 0: all cores")->capture_default_str();
  command.add_option("--dtype", options.dtype, "auto, bf16 or f32")
      ->check(CLI::IsMember({"auto", "bf16", "f32"}))
      ->capture_default_str();
  command.add_option("--kv-cache", options.kv_cache,
                     "Memory for keys and values kept for reuse, such as 2GiB; 0: none outlive their step");
  command.add_option("--memory-limit", options.memory_limit, "Refuse to start beyond this, such as 16GiB");
  command.add_option("--max-context", config.max_context_tokens, "Longest context in tokens; 0: the model's own limit")
      ->capture_default_str();
  command.add_option("--step-tokens", config.step_tokens, "A step is filled until it computes this many tokens")
      ->capture_default_str();
  command.add_option("--chunk-tokens", config.chunk_tokens, "Tokens that everything but attention works on at a time")
      ->capture_default_str();
  command.add_option("--max-pending", config.max_pending_requests, "Rows read ahead of their answers")
      ->capture_default_str();
  command.add_flag("--reference", config.reference_ops, "Use the slow reference operations, to look for errors");
}

EngineConfig engine_config(const EngineOptions& options) {
  EngineConfig config = options.config;
  config.model = options.model;
  config.compute = options.dtype == "bf16"  ? ComputeType::kBf16
                   : options.dtype == "f32" ? ComputeType::kF32
                                            : ComputeType::kAuto;
  config.kv_cache_bytes = parse_bytes("--kv-cache", options.kv_cache);
  config.memory_limit_bytes = parse_bytes("--memory-limit", options.memory_limit);
  return config;
}

}  // namespace zp::app
