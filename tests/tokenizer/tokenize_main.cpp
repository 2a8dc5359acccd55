// What are the ids of the lines of standard input? A program for comparisons, not installed.
//
//   zp_tokenize_tool TOKENIZER [--json] [--add-special] [--no-parse-special] [--decode] [--skip-special]
//
// Reads a text a line (with --json a JSON string a line, so that texts may hold newlines) and prints a JSON list of ids
// a line. With --decode reads lists of ids and prints JSON strings. A line that fails prints {"error": "..."}.
#include <simdjson.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "zp/base/error.h"
#include "zp/tokenizer/tokenizer.h"

namespace {

struct Options {
  bool json = false;
  bool decode = false;
  bool skip_special = false;
  zp::EncodeOptions encode;
};

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string encode_line(const zp::Tokenizer& tokenizer, const Options& options, simdjson::dom::parser& parser,
                        const std::string& line) {
  std::string_view text = line;
  if (options.json && parser.parse(line).get(text) != simdjson::SUCCESS) {
    zp::fail(zp::ErrorCode::kInvalidArgument, "the line is not a JSON string");
  }
  return fmt::format("[{}]", fmt::join(tokenizer.encode(text, options.encode), ", "));
}

std::string decode_line(const zp::Tokenizer& tokenizer, const Options& options, simdjson::dom::parser& parser,
                        const std::string& line) {
  simdjson::dom::array array;
  if (parser.parse(line).get(array) != simdjson::SUCCESS) {
    zp::fail(zp::ErrorCode::kInvalidArgument, "the line is not a list");
  }
  std::vector<int32_t> ids;
  for (const simdjson::dom::element element : array) {
    int64_t id = 0;
    if (element.get(id) != simdjson::SUCCESS) zp::fail(zp::ErrorCode::kInvalidArgument, "an id is not an integer");
    ids.push_back(static_cast<int32_t>(id));
  }
  return json_string(tokenizer.decode(ids, options.skip_special));
}

bool read_options(int argc, char** argv, Options& options) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      options.json = true;
    } else if (flag == "--decode") {
      options.decode = true;
    } else if (flag == "--skip-special") {
      options.skip_special = true;
    } else if (flag == "--add-special") {
      options.encode.add_special_tokens = true;
    } else if (flag == "--no-parse-special") {
      options.encode.parse_special = false;
    } else {
      return false;
    }
  }
  return argc >= 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fputs(
        "usage: zp_tokenize_tool TOKENIZER [--json] [--add-special] [--no-parse-special] [--decode] "
        "[--skip-special]\n",
        stderr);
    return 2;
  }
  std::ios::sync_with_stdio(false);
  try {
    const auto tokenizer = zp::Tokenizer::load(argv[1]);
    simdjson::dom::parser parser;
    std::string line;
    while (std::getline(std::cin, line)) {
      std::string answer;
      try {
        answer = options.decode ? decode_line(*tokenizer, options, parser, line)
                                : encode_line(*tokenizer, options, parser, line);
      } catch (const zp::Error& error) {
        answer = fmt::format("{{\"error\": {}}}", json_string(error.what()));
      }
      std::cout << answer << '\n';
    }
  } catch (const zp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
