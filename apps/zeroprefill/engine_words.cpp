// Fields and their options.
#include "engine_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace zp::app {
namespace {

struct FieldOption {
  std::string_view field;
  std::string_view option;
};

constexpr std::array kFieldOptions = {
    FieldOption{"max_context_tokens", "--max-context"},
    FieldOption{"kv_cache_bytes", "--kv-cache"},
    FieldOption{"memory_limit_bytes", "--memory-limit"},
    FieldOption{"max_pending_requests", "--max-pending"},
    FieldOption{"step_tokens", "--step-tokens"},
    FieldOption{"max_step_tokens", "--max-step-tokens"},
    FieldOption{"chunk_tokens", "--chunk-tokens"},
    FieldOption{"paced_flops_per_second", "--pace"},
    FieldOption{"target.gamma", "--gamma"},
    FieldOption{"target.tokens", "--step-target"},
    FieldOption{"target.milliseconds", "--step-target"},
    FieldOption{"target.calibration", "--calibration"},
    FieldOption{"experts.mode", "--experts"},
    FieldOption{"experts.below_threshold", "--below-threshold"},
    FieldOption{"below_threshold", "--below-threshold"},
    FieldOption{"experts.slots", "--slots"},
    FieldOption{"experts.window", "--window"},
    FieldOption{"experts.slice_bytes", "--slice"},
    FieldOption{"experts.rank_bytes", "--expert-memory"},
    FieldOption{"experts.host_bytes", "--host-memory"},
    FieldOption{"experts.peer_link.latency_us", "--link-latency-us"},
    FieldOption{"experts.host_link.latency_us", "--host-latency-us"},
    FieldOption{"random.layers", "--layers"},
    FieldOption{"random.expert_skew", "--expert-skew"},
};

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Of names, paths and options: a dot or a dash belongs to it only between two such characters.
size_t word_end(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size()) {
    const bool joins = text[end] == '.' || text[end] == '-' || text[end] == '/';
    if (!is_name(text[end]) && !(joins && end + 1 < text.size() && (is_name(text[end + 1]) || text[end] == '/'))) break;
    ++end;
  }
  return end;
}

}  // namespace

std::string with_option_names(std::string_view message) {
  std::string said;
  for (size_t begin = 0; begin < message.size();) {
    const size_t end = std::max(word_end(message, begin), begin + 1);
    const std::string_view word = message.substr(begin, end - begin);
    const auto* known = std::ranges::find(kFieldOptions, word, &FieldOption::field);
    said += known != kFieldOptions.end() ? known->option : word;
    begin = end;
  }
  return said;
}

std::string why_other_experts(std::string_view asked, std::string_view actual, int32_t ranks) {
  if (asked == "auto" || asked == actual) return "";
  std::string_view why = "only one layer has experts, and every rank keeps the first such layer";
  if (actual == "gathered")
    why = "the ranks' memory holds all experts, so none is left to the host; --expert-memory bounds it";
  else if (actual == "host")
    why = "one rank shares the streaming with nobody: what its memory does not hold comes over its own host link";
  else if (ranks == 1 && asked == "gathered")
    why = "one rank keeps all experts, since there is no other to gather them from";
  else if (ranks == 1 && asked == "hybrid")
    why = "the rank's memory holds all experts, so none is left to the host; --expert-memory bounds it";
  return fmt::format("--experts {} came to {}: {}", asked, actual, why);
}

}  // namespace zp::app
