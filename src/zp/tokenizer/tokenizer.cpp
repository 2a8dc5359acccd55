// How does text become token ids, and ids text?
#include "zp/tokenizer/tokenizer.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/utf8.h"
#include "zp/tokenizer/added_tokens.h"
#include "zp/tokenizer/bpe.h"
#include "zp/tokenizer/byte_alphabet.h"
#include "zp/tokenizer/decoder.h"
#include "zp/tokenizer/json_view.h"
#include "zp/tokenizer/normalizer.h"
#include "zp/tokenizer/post_processor.h"
#include "zp/tokenizer/pre_tokenizer.h"

namespace zp {

using tokenizer::AddedToken;
using tokenizer::AddedTokens;
using tokenizer::JsonView;
using tokenizer::Span;

struct Tokenizer::Parts {
  Parts(tokenizer::Bpe bpe_model, tokenizer::PreTokenizer splitter)
      : bpe(std::move(bpe_model)), pre_tokenizer(std::move(splitter)) {}

  tokenizer::ByteAlphabet alphabet;
  tokenizer::Normalizer normalizer;
  tokenizer::Bpe bpe;
  tokenizer::PreTokenizer pre_tokenizer;
  tokenizer::PostProcessor post_processor;
  tokenizer::Decoder decoder;
  AddedTokens added;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> pad_id;
};

namespace {

simdjson::dom::element parse_json(simdjson::dom::parser& parser, std::string_view json, std::string_view what) {
  simdjson::dom::element root;
  const simdjson::error_code error = parser.parse(simdjson::padded_string(json)).get(root);
  if (error != simdjson::SUCCESS) {
    fail(ErrorCode::kCorrupt, "{} is not valid JSON: {}", what, simdjson::error_message(error));
  }
  return root;
}

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) fail(ErrorCode::kNotFound, "there is no file {}", path.string());
  simdjson::padded_string content;
  const simdjson::error_code failure = simdjson::padded_string::load(path.string()).get(content);
  if (failure != simdjson::SUCCESS) {
    fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), simdjson::error_message(failure));
  }
  return std::string(std::string_view(content));
}

std::filesystem::path file_of(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path / "tokenizer.json" : path;
}

// Truncation and padding would change ids behind the caller's back, so that a file that asks for them is refused.
void require_absent(const JsonView& root, std::string_view key) {
  if (const std::optional<JsonView> value = root.find(key)) {
    fail(ErrorCode::kUnsupported, "{} is set, which is not supported", value->where());
  }
}

/// Encodes each word that the pre-tokenizer finds.
class Words final : public tokenizer::WordSink {
 public:
  Words(const tokenizer::Bpe& bpe, std::vector<int32_t>& ids) : bpe_(bpe), ids_(ids) {}
  void on_word(std::string_view word) override { bpe_.encode(word, ids_); }

 private:
  const tokenizer::Bpe& bpe_;
  std::vector<int32_t>& ids_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = file_of(path);
  std::unique_ptr<Tokenizer> loaded;
  const std::string content = read_file(file);
  try {
    loaded = parse(content);
  } catch (const Error& cause) {
    fail(cause.code(), "{}: {}", file.string(), cause.what());
  }
  const std::filesystem::path config = file.parent_path() / "tokenizer_config.json";
  if (std::filesystem::exists(config, error)) loaded->read_config(config);
  return loaded;
}

std::unique_ptr<Tokenizer> Tokenizer::parse(std::string_view json) {
  simdjson::dom::parser parser;
  const JsonView root(parse_json(parser, json, "the tokenizer"), "tokenizer");
  root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  if (const auto version = root.find("version"); version && version->string() != "1.0") {
    fail(ErrorCode::kUnsupported, "{} is {}, and only \"1.0\" is supported", version->where(),
         quote_excerpt(version->string()));
  }
  require_absent(root, "truncation");
  require_absent(root, "padding");
  const std::optional<JsonView> pre_tokenizer = root.find("pre_tokenizer");
  if (!pre_tokenizer) fail(ErrorCode::kUnsupported, "a tokenizer without a pre_tokenizer is not supported");
  auto parts = std::make_unique<Parts>(tokenizer::Bpe::parse(root.at("model"), tokenizer::ByteAlphabet()),
                                       tokenizer::PreTokenizer::parse(*pre_tokenizer));
  if (const auto part = root.find("normalizer")) parts->normalizer = tokenizer::Normalizer::parse(*part);
  if (const auto part = root.find("post_processor")) parts->post_processor = tokenizer::PostProcessor::parse(*part);
  if (const auto part = root.find("decoder")) parts->decoder = tokenizer::Decoder::parse(*part);
  if (const auto part = root.find("added_tokens")) {
    parts->added = AddedTokens::parse(*part, parts->bpe.vocabulary(), parts->normalizer);
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

uint64_t Tokenizer::memory_bytes_max(const std::filesystem::path& path) {
  // Word cache, pairs of low ids and expressions have a fixed size. Of the rest, reading takes most: the text of the
  // file twice, its parsed form, and the tables that are made of it.
  constexpr uint64_t kFixedBytes = uint64_t{9} << 20;
  constexpr uint64_t kPerFileByte = 12;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(file_of(path), error);
  return error ? 0 : kFixedBytes + kPerFileByte * size;
}

void Tokenizer::read_config(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  simdjson::dom::parser parser;
  const JsonView root(parse_json(parser, content, path.string()), path.string());
  const auto id_of = [&](std::string_view key) -> std::optional<int32_t> {
    const std::optional<JsonView> token = root.find(key);
    if (!token) return std::nullopt;
    return token_to_id(token->is_string() ? token->string() : token->at("content").string());
  };
  parts_->bos_id = id_of("bos_token");
  parts_->eos_id = id_of("eos_token");
  parts_->pad_id = id_of("pad_token");
}

std::vector<int32_t> Tokenizer::encode(std::string_view utf8, const EncodeOptions& options) const {
  if (const std::optional<std::size_t> offset = find_invalid_utf8(utf8)) {
    fail(ErrorCode::kInvalidArgument, "the text is not valid UTF-8 at byte {} of {}", *offset, utf8.size());
  }
  std::vector<int32_t> ids;
  ids.reserve(utf8.size() / 4 + 4);
  Words words(parts_->bpe, ids);
  tokenizer::RegexScratch scratch;
  std::string buffer;
  for (const Span& raw : parts_->added.split(utf8, AddedTokens::Text::kRaw, options.parse_special, scratch)) {
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    const std::string_view text = parts_->normalizer.apply(raw.text, buffer, scratch);
    for (const Span& span : parts_->added.split(text, AddedTokens::Text::kNormalized, options.parse_special, scratch)) {
      if (span.id >= 0) {
        ids.push_back(span.id);
      } else {
        parts_->pre_tokenizer.split(span.text, scratch, words);
      }
    }
  }
  return options.add_special_tokens ? parts_->post_processor.apply(std::move(ids)) : ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    std::optional<std::string> token = id_to_token(id);
    if (!token) fail(ErrorCode::kInvalidArgument, "{} is no token id; the vocabulary ends before {}", id, size());
    if (skip_special_tokens && parts_->added.is_special(*token)) continue;
    tokens.push_back(*std::move(token));
  }
  return parts_->decoder.apply(std::move(tokens), parts_->alphabet);
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const std::optional<int32_t> added = parts_->added.id_of(token);
  return added ? added : parts_->bpe.vocabulary().id_of(token);
}

std::optional<std::string> Tokenizer::id_to_token(int32_t id) const {
  if (const AddedToken* added = parts_->added.find(id)) return added->matched;
  const std::string* token = parts_->bpe.vocabulary().token_of(id);
  return token == nullptr ? std::nullopt : std::optional(*token);
}

int32_t Tokenizer::size() const { return std::max(parts_->bpe.vocabulary().id_end(), parts_->added.id_end()); }

std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos_id; }
std::optional<int32_t> Tokenizer::pad_id() const { return parts_->pad_id; }

}  // namespace zp
