// `zeroprefill tokenize`: a text a line in, a JSON list of ids a line out; `--decode` the other way. A bad line gives
// {"error": ...} and the rest goes on.
#include <simdjson.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "zp/base/error.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp::app {
namespace {

struct TokenizeOptions {
  std::string tokenizer;
  bool decode = false;
  bool json = false;
  bool add_special_tokens = false;
  bool skip_special_tokens = false;
  bool special_tokens_as_text = false;
};

// One line's worth of work. Throws zp::Error for a line that cannot be done.
class LineConverter final {
 public:
  LineConverter(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  std::string operator()(const std::string& line) { return options_.decode ? decode(line) : encode(line); }

 private:
  std::string encode(const std::string& line) {
    std::string_view text = line;
    if (options_.json && parser_.parse(line).get(text)) fail(ErrorCode::kInvalidArgument, "the line is no JSON string");
    const auto ids = tokenizer_.encode(
        text, {.add_special_tokens = options_.add_special_tokens, .parse_special = !options_.special_tokens_as_text});
    return fmt::format("[{}]", fmt::join(ids, ", "));
  }

  // Text can hold line ends, so with --json it is written as a JSON string.
  std::string decode(const std::string& line) {
    simdjson::dom::array array;
    if (parser_.parse(line).get(array)) fail(ErrorCode::kInvalidArgument, "the line is no JSON list of token ids");
    std::vector<int32_t> ids;
    for (const simdjson::dom::element element : array) {
      int64_t id = 0;
      if (element.get(id) || id < 0 || id >= tokenizer_.size())
        fail(ErrorCode::kInvalidArgument, "element {} of the list is no token id in [0, {})", ids.size(),
             tokenizer_.size());
      ids.push_back(static_cast<int32_t>(id));
    }
    const std::string text = tokenizer_.decode(ids, options_.skip_special_tokens);
    return options_.json ? nlohmann::json(text).dump() : text;
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  simdjson::dom::parser parser_;
};

int run(const TokenizeOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(options.tokenizer);
  LineConverter convert(*tokenizer, options);
  std::ios::sync_with_stdio(false);
  std::string line;
  int64_t number = 0;
  int64_t bad_lines = 0;
  while (std::getline(std::cin, line)) {
    ++number;
    try {
      std::cout << convert(line) << '\n';
    } catch (const Error& error) {
      // Line k of the output stays line k of the input.
      ++bad_lines;
      std::cout << nlohmann::json{{"error", fmt::format("line {}: {}", number, error.what())}}.dump() << '\n';
    }
    if (!std::cout) break;
  }
  std::cout.flush();
  if (!std::cout) fail(ErrorCode::kIo, "cannot write to standard output");
  if (bad_lines > 0) fail(ErrorCode::kInvalidArgument, "{} of {} lines have an error", bad_lines, number);
  return 0;
}

}  // namespace

Command add_tokenize(CLI::App& app) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command =
      app.add_subcommand("tokenize", "A text a line in, a JSON list of token ids a line out (stdin to stdout)");
  command->add_option("--tokenizer", options->tokenizer, "A tokenizer.json, or a folder that holds one")->required();
  command->add_flag("--decode", options->decode, "Token ids in, texts out");
  command->add_flag("--json", options->json, "Texts are JSON strings, so that they can hold line ends");
  command->add_flag("--add-special-tokens", options->add_special_tokens, "Add what the post-processor adds");
  command->add_flag("--special-tokens-as-text", options->special_tokens_as_text,
                    "A special token written out in a text is text like any other");
  command->add_flag("--skip-special-tokens", options->skip_special_tokens, "With --decode: leave special tokens out");
  return [options] { return run(*options); };
}

}  // namespace zp::app
