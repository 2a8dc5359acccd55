// The whole engine on a GPU with the shipped model: the CPU's answers, and the same bits however it is run.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/device/factory.h"

namespace zp {
namespace {

// The checkout, or the folder that a machine with a GPU was given of it.
std::filesystem::path root() {
  const std::filesystem::path built_from = ZP_SOURCE_DIR;
  return std::filesystem::exists(built_from / "models") ? built_from : std::filesystem::current_path();
}

struct Prompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> label_ids;
  std::vector<double> logits;  // of transformers
};

const std::vector<Prompt>& prompts() {
  static const std::vector<Prompt> all = [] {
    std::vector<Prompt> read;
    std::ifstream file(root() / "tests/data/demo_prompts.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      read.push_back({json.at("prompt_ids"), json.at("label_ids"), json.at("logits")});
    }
    return read;
  }();
  return all;
}

EngineConfig config_on(const char* device) {
  EngineConfig config;
  config.model = root() / "models/demo-moe";
  config.device = device;
  config.compute = ComputeType::kBf16;
  config.kv_cache_bytes = uint64_t{16} << 20;
  return config;
}

// The prompts, whole and cut short: one that ends after each of `lengths`, as far as it has as many tokens.
std::vector<std::vector<int32_t>> contexts() {
  std::vector<std::vector<int32_t>> made;
  for (const Prompt& prompt : prompts()) {
    made.push_back(prompt.ids);
    for (const size_t length : {1, 15, 16, 17, 63, 64, 65, 100, 128, 129, 200})
      if (length < prompt.ids.size()) made.emplace_back(prompt.ids.begin(), prompt.ids.begin() + length);
  }
  return made;
}

std::vector<Answer> run(const EngineConfig& config, const std::vector<std::vector<int32_t>>& contexts,
                        int32_t rounds = 1) {
  const auto engine = Engine::create(config);
  std::vector<Answer> answers;
  for (int32_t round = 0; round < rounds; ++round) {
    std::mutex mutex;
    std::map<uint64_t, Answer> by_id;
    for (const auto& context : contexts) {
      Request request;
      request.context = context;
      for (int32_t id = 7; id < 4096; id += 61) request.candidates.emplace_back(id);
      (void)engine->submit(request, [&](uint64_t id, Outcome outcome) {
        const std::lock_guard lock(mutex);
        if (const auto* failure = std::get_if<Failure>(&outcome)) ADD_FAILURE() << failure->message;
        if (auto* answer = std::get_if<Answer>(&outcome)) by_id.emplace(id, std::move(*answer));
      });
    }
    engine->drain();
    answers.clear();
    for (auto& [id, answer] : by_id) answers.push_back(std::move(answer));
  }
  return answers;
}

std::vector<uint32_t> bits_of(const std::vector<Answer>& answers) {
  std::vector<uint32_t> bits;
  for (const Answer& answer : answers) {
    for (const float logit : answer.logits) bits.push_back(std::bit_cast<uint32_t>(logit));
    bits.push_back(std::bit_cast<uint32_t>(static_cast<float>(answer.log_sum_exp)));
  }
  return bits;
}

class CudaEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      (void)make_device({.kind = DeviceKind::kCuda});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }
};

// As in tests/model/forward_test.cpp: a few roundings to bf16 in each of 6 layers, which add up like a random walk.
constexpr double kTolerance = 8 * 7.75 * 0x1p-9;

TEST_F(CudaEngine, GivesTheAnswersOfTransformers) {
  const auto engine = Engine::create(config_on("cuda"));
  ASSERT_EQ(prompts().size(), 20U);
  for (const Prompt& prompt : prompts()) {
    Request request;
    request.context = prompt.ids;
    for (const int32_t id : prompt.label_ids) request.candidates.emplace_back(id);
    Outcome outcome;
    (void)engine->submit(request, [&](uint64_t, Outcome made) { outcome = std::move(made); });
    engine->drain();
    ASSERT_TRUE(std::holds_alternative<Answer>(outcome)) << std::get<Failure>(outcome).message;
    const auto& answer = std::get<Answer>(outcome);
    double difference = 0;
    double norm = 0;
    for (size_t c = 0; c < prompt.logits.size(); ++c) {
      difference += std::pow(answer.logits[c] - prompt.logits[c], 2);
      norm += std::pow(prompt.logits[c], 2);
    }
    EXPECT_LE(std::sqrt(difference / norm), kTolerance);
    EXPECT_EQ(answer.best, static_cast<size_t>(std::ranges::max_element(prompt.logits) - prompt.logits.begin()));
  }
}

TEST_F(CudaEngine, AgreesWithTheCpu) {
  const auto inputs = contexts();
  const std::vector<Answer> expected = run(config_on("cpu"), inputs);
  const std::vector<Answer> answers = run(config_on("cuda"), inputs);
  ASSERT_EQ(answers.size(), inputs.size());
  ASSERT_EQ(expected.size(), inputs.size());
  int64_t clear = 0;
  int64_t agreed = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    double difference = 0;
    double norm = 0;
    double second = -INFINITY;
    for (size_t c = 0; c < expected[i].logits.size(); ++c) {
      difference += std::pow(answers[i].logits[c] - expected[i].logits[c], 2);
      norm += std::pow(expected[i].logits[c], 2);
      if (c != expected[i].best) second = std::max(second, static_cast<double>(expected[i].logits[c]));
    }
    EXPECT_LE(std::sqrt(difference / norm), kTolerance) << "context " << i << " of " << inputs[i].size() << " tokens";
    EXPECT_NEAR(answers[i].log_sum_exp, expected[i].log_sum_exp, 0.5);
    // Which is best can be asked only where the first two are further apart than either may be off.
    const double apart = static_cast<double>(expected[i].logits[expected[i].best]) - second;
    if (apart <= 2 * kTolerance * std::sqrt(norm / static_cast<double>(expected[i].logits.size()))) continue;
    ++clear;
    agreed += answers[i].best == expected[i].best ? 1 : 0;
  }
  EXPECT_GT(clear, 50);
  EXPECT_GE(static_cast<double>(agreed), 0.99 * static_cast<double>(clear));
}

// The memory pool is what was planned: a step takes nothing, neither on the device nor pinned.
TEST_F(CudaEngine, AllocatesNothingInSteps) {
  const auto inputs = contexts();
  for (const ExpertMode mode : {ExpertMode::kResident, ExpertMode::kHost}) {
    EngineConfig config = config_on("cuda");
    config.experts.mode = mode;
    const auto engine = Engine::create(config);
    const EngineStats loaded = engine->stats();
    EXPECT_GT(loaded.weight_load_rate(), 0);
    EXPECT_TRUE(std::ranges::any_of(loaded.memory_plan.host.items, [](const MemoryItem& item) {
      return item.consumer == "loading" && item.bytes > 0;
    }));
    EXPECT_TRUE(std::ranges::any_of(loaded.memory_plan.host.items, [](const MemoryItem& item) {
      return item.consumer == "metadata of operations" && item.bytes == uint64_t{64} << 20;
    }));
    // What the first step needs is there before it too.
    EXPECT_GT(loaded.ranks.front().allocations, 0);
    for (int round = 0; round < 3; ++round) {
      for (const auto& context : inputs) {
        Request request;
        request.context = context;
        request.candidates = {Candidate(7), Candidate(8)};
        (void)engine->submit(
            request, [](uint64_t, const Outcome& outcome) { EXPECT_TRUE(std::holds_alternative<Answer>(outcome)); });
      }
      engine->drain();
      EXPECT_EQ(engine->stats().ranks.front().allocations, loaded.ranks.front().allocations) << "round " << round;
    }
  }
}

// Caching, batching, chunks and where experts live are about speed alone.
TEST_F(CudaEngine, GivesTheSameBitsHoweverItIsRun) {
  const auto inputs = contexts();
  const EngineConfig base = config_on("cuda");
  const auto expected = bits_of(run(base, inputs));
  std::map<std::string, EngineConfig> others;
  others["no cache"] = base;
  others["no cache"].kv_cache_bytes = 0;
  others["steps of one request"] = base;
  others["steps of one request"].step_tokens = 1;
  others["odd chunks"] = base;
  others["odd chunks"].chunk_tokens = 37;
  others["large chunks"] = base;
  others["large chunks"].chunk_tokens = 8192;
  others["large chunks"].step_tokens = 8192;
  others["experts in host memory"] = base;
  others["experts in host memory"].experts.mode = ExpertMode::kHost;
  others["experts in host memory, three slots, small slices"] = others["experts in host memory"];
  others["experts in host memory, three slots, small slices"].experts.slots = 3;
  others["experts in host memory, three slots, small slices"].experts.slice_bytes = 4096;
  others["hybrid"] = base;
  others["hybrid"].experts.mode = ExpertMode::kHybrid;
  others["hybrid"].experts.rank_bytes = uint64_t{5} << 20;
  for (const auto& [name, config] : others) {
    EXPECT_TRUE(bits_of(run(config, inputs)) == expected) << name;
    EXPECT_TRUE(bits_of(run(config, inputs, 2)) == expected) << name << ", a second time";
  }
}

// What its metadata has no room for: 4 bytes a token of 16 MiB.
TEST_F(CudaEngine, RefusesAContextThatIsTooLongByValueAndLimit) {
  EngineConfig config = config_on("cuda");
  config.model = "random:" + (root() / "models/demo-moe").string();
  config.max_context_tokens = (int64_t{1} << 22) + 1;
  try {
    (void)Engine::create(config);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    for (const char* part : {"4194305", "4194304", "max_context_tokens"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(CudaEngine, RefusesF32ByName) {
  EngineConfig config = config_on("cuda");
  config.compute = ComputeType::kF32;
  try {
    (void)Engine::create(config);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("bf16 only"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace zp
