// How fast does the tokenizer load, encode and decode?
//
//   tokenizer_bench [TOKENIZER TEXT_FILE] [Google Benchmark flags]
//
// Encodes the lines of the file one by one (a request each), then the file as one text. Without arguments it takes the
// small tokenizer of the tests and its own tokens as text; a real vocabulary and some megabytes of text are slower,
// since their tables leave the cache.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zp/base/error.h"
#include "zp/tokenizer/tokenizer.h"

namespace {

struct Input {
  std::string path;
  std::unique_ptr<zp::Tokenizer> tokenizer;
  std::string text;
  std::vector<std::string_view> lines;
  std::vector<int32_t> ids;
};

void count_bytes(benchmark::State& state, std::size_t size_bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(size_bytes));
}

void load(benchmark::State& state, const Input& input) {
  for (auto _ : state) benchmark::DoNotOptimize(zp::Tokenizer::load(input.path));
}

void encode_lines(benchmark::State& state, const Input& input) {
  for (auto _ : state) {
    std::size_t tokens = 0;
    for (const std::string_view line : input.lines) tokens += input.tokenizer->encode(line).size();
    benchmark::DoNotOptimize(tokens);
  }
  count_bytes(state, input.text.size());
}

void encode_whole(benchmark::State& state, const Input& input) {
  for (auto _ : state) benchmark::DoNotOptimize(input.tokenizer->encode(input.text));
  count_bytes(state, input.text.size());
}

void encode_long_word(benchmark::State& state, const Input& input) {
  std::string word;
  while (word.size() < static_cast<std::size_t>(state.range(0))) {
    for (const char c : input.text) {
      if (c >= 'a' && c <= 'z') word.push_back(c);
    }
    if (word.empty()) word.push_back('a');
  }
  word.resize(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(input.tokenizer->encode(word));
  count_bytes(state, word.size());
}

void decode(benchmark::State& state, const Input& input) {
  for (auto _ : state) benchmark::DoNotOptimize(input.tokenizer->decode(input.ids));
  count_bytes(state, input.text.size());
}

std::string read_text(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) zp::fail(zp::ErrorCode::kIo, "cannot read {}", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Input make_input(const std::string& tokenizer, const char* text_path) {
  Input input;
  input.path = tokenizer;
  input.tokenizer = zp::Tokenizer::load(tokenizer);
  if (text_path != nullptr) {
    input.text = read_text(text_path);
  } else {
    std::vector<int32_t> ids;
    for (int32_t id = 256; id < input.tokenizer->size(); ++id) ids.push_back(id);
    for (int i = 0; i < 20; ++i) input.text += input.tokenizer->decode(ids, true) + "\n";
  }
  for (std::size_t begin = 0; begin < input.text.size();) {
    const std::size_t end = std::min(input.text.find('\n', begin), input.text.size());
    input.lines.push_back(std::string_view(input.text).substr(begin, end - begin));
    begin = end + 1;
  }
  input.ids = input.tokenizer->encode(input.text);
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 1 && argc != 3) {
    std::fputs("usage: tokenizer_bench [TOKENIZER TEXT_FILE] [--benchmark_...]\n", stderr);
    return 2;
  }
  try {
    const Input input = argc == 3 ? make_input(argv[1], argv[2])
                                  : make_input(ZP_SOURCE_DIR "/tests/data/tokenizer/qwen_small", nullptr);
    benchmark::RegisterBenchmark("load", [&](benchmark::State& state) {
      load(state, input);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("encode_lines", [&](benchmark::State& state) { encode_lines(state, input); })
        ->Unit(benchmark::kMillisecond)
        ->ThreadRange(1, 2)
        ->UseRealTime();
    benchmark::RegisterBenchmark("encode_whole", [&](benchmark::State& state) {
      encode_whole(state, input);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("encode_long_word", [&](benchmark::State& state) { encode_long_word(state, input); })
        ->Unit(benchmark::kMillisecond)
        ->Arg(1 << 16)
        ->Arg(1 << 20);
    benchmark::RegisterBenchmark("decode", [&](benchmark::State& state) {
      decode(state, input);
    })->Unit(benchmark::kMillisecond);
    benchmark::RunSpecifiedBenchmarks();
  } catch (const zp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
