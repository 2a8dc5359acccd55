// Which ids are put around those of a text?
#include "zp/tokenizer/post_processor.h"

#include <string_view>
#include <utility>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"

namespace zp::tokenizer {
namespace {

constexpr int kSequenceDepthMax = 8;
constexpr int32_t kSequence = -1;  // in a template: where the ids of the text go

std::vector<int32_t> parse_template(const JsonView& json) {
  json.allow_only({"type", "single", "pair", "special_tokens"});
  const JsonView specials = json.at("special_tokens");
  std::vector<int32_t> pattern;
  for (const JsonView& piece : json.at("single").elements()) {
    if (const std::optional<JsonView> sequence = piece.find("Sequence")) {
      const std::string_view id = sequence->at("id").string();
      if (id != "A")
        fail(ErrorCode::kCorrupt, "{}.id is {}, but one text has only \"A\"", sequence->where(), quote_excerpt(id));
      pattern.push_back(kSequence);
      continue;
    }
    const std::optional<JsonView> special = piece.find("SpecialToken");
    if (!special) {
      fail(ErrorCode::kCorrupt, "{} is neither a \"Sequence\" nor a \"SpecialToken\"", piece.where());
    }
    for (const JsonView& id : specials.at(special->at("id").string()).at("ids").elements()) {
      pattern.push_back(id.token_id());
    }
  }
  return pattern;
}

// RobertaProcessing and BertProcessing: one token before the text and one behind it.
std::vector<int32_t> parse_bert(const JsonView& json) {
  json.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const auto id_of = [&](std::string_view key) {
    const std::vector<JsonView> pair = json.at(key).elements();
    if (pair.size() != 2) fail(ErrorCode::kCorrupt, "{}.{} is not a token and its id", json.where(), key);
    return pair[1].token_id();
  };
  return {id_of("cls"), kSequence, id_of("sep")};
}

}  // namespace

PostProcessor PostProcessor::parse(const JsonView& json) {
  PostProcessor processor;
  processor.add(json, 0);
  return processor;
}

void PostProcessor::add(const JsonView& json, int depth) {
  if (depth > kSequenceDepthMax) fail(ErrorCode::kUnsupported, "{} is nested too deeply", json.where());
  const std::string_view type = json.at("type").string();
  if (type == "ByteLevel") {
    json.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // they move offsets, never ids
  } else if (type == "TemplateProcessing") {
    set_template(json, parse_template(json));
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    set_template(json, parse_bert(json));
  } else if (type == "Sequence") {
    json.allow_only({"type", "processors"});
    for (const JsonView& inner : json.at("processors").elements()) add(inner, depth + 1);
  } else {
    fail(ErrorCode::kUnsupported, "{} is of type {}, which is not supported", json.where(), quote_excerpt(type));
  }
}

// Hugging Face tokenizers itself fails on a second template.
void PostProcessor::set_template(const JsonView& json, std::vector<int32_t> pattern) {
  if (template_) fail(ErrorCode::kUnsupported, "{} is a second template, which is not supported", json.where());
  template_ = std::move(pattern);
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids) const {
  if (!template_) return ids;
  std::vector<int32_t> result;
  result.reserve(ids.size() + template_->size());
  for (const int32_t id : *template_) {
    if (id == kSequence) {
      result.insert(result.end(), ids.begin(), ids.end());
    } else {
      result.push_back(id);
    }
  }
  return result;
}

}  // namespace zp::tokenizer
