// The whole engine on the shipped model: answers against transformers, the same bits however it is run, bad requests.
#include "zeroprefill/engine.h"

#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tests/support/errors.h"
#include "zp/ops/factory.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp {
namespace {

using test::expect_error;

const std::filesystem::path kRoot = ZP_SOURCE_DIR;

// A prompt of a shipped task with what transformers makes of it (tools/demo_model/make_fixture.py).
struct Prompt {
  std::string task;
  std::string text;
  std::vector<int32_t> ids;
  std::vector<int32_t> label_ids;
  std::vector<double> logits;
};

const std::vector<Prompt>& prompts() {
  static const std::vector<Prompt> all = [] {
    std::vector<Prompt> read;
    std::ifstream file(kRoot / "tests/data/demo_prompts.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      read.push_back(
          {json.at("task"), json.at("prompt"), json.at("prompt_ids"), json.at("label_ids"), json.at("logits")});
    }
    return read;
  }();
  return all;
}

EngineConfig demo_config() {
  EngineConfig config;
  config.model = kRoot / "models/demo-moe";
  config.threads = 2;
  config.kv_cache_bytes = uint64_t{16} << 20;
  return config;
}

// Submits all prompts, in order, and returns their outcomes in order.
std::vector<Outcome> run_all(Engine& engine, bool as_ids = false) {
  std::mutex mutex;
  std::map<uint64_t, Outcome> outcomes;
  std::vector<uint64_t> order;
  for (const Prompt& prompt : prompts()) {
    Request request;
    if (as_ids)
      request.context = prompt.ids;
    else
      request.context = prompt.text;
    for (const int32_t id : prompt.label_ids) request.candidates.emplace_back(id);
    order.push_back(engine.submit(request, [&](uint64_t id, Outcome outcome) {
      const std::lock_guard lock(mutex);
      outcomes.emplace(id, std::move(outcome));
    }));
  }
  engine.drain();
  std::vector<Outcome> in_order;
  for (const uint64_t id : order) in_order.push_back(outcomes.at(id));
  return in_order;
}

std::vector<uint32_t> bits_of(const std::vector<Outcome>& outcomes) {
  std::vector<uint32_t> bits;
  for (const Outcome& outcome : outcomes) {
    const auto& answer = std::get<Answer>(outcome);
    for (const float logit : answer.logits) bits.push_back(std::bit_cast<uint32_t>(logit));
    bits.push_back(std::bit_cast<uint32_t>(static_cast<float>(answer.log_sum_exp)));
  }
  return bits;
}

TEST(ShippedTokenizer, GivesTheIdsOfHuggingFace) {
  const auto tokenizer = Tokenizer::load(kRoot / "models/demo-moe");
  ASSERT_EQ(prompts().size(), 20U);
  for (const Prompt& prompt : prompts()) EXPECT_EQ(tokenizer->encode(prompt.text), prompt.ids) << prompt.task;
}

TEST(EngineMemoryPlan, IsToldOnceBeforeAnythingIsAllocatedAndIsTheOneThatHolds) {
  EngineConfig config = demo_config();
  std::vector<EngineMemory> told;
  config.on_memory_plan = [&](const EngineMemory& memory) { told.push_back(memory); };
  const auto engine = Engine::create(config);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].to_text(), engine->stats().memory_plan.to_text());
  // Whoever is told can still keep anything from being allocated.
  config.on_memory_plan = [](const EngineMemory&) { fail(ErrorCode::kCancelled, "too much for me"); };
  test::expect_error([&] { (void)Engine::create(config); }, ErrorCode::kCancelled, {"too much for me"});
  config.memory_limit_bytes = 1 << 20;
  test::expect_error([&] { (void)Engine::create(config); }, ErrorCode::kOutOfMemory, {"1.00 MiB"});
}

class EngineLogits : public ::testing::TestWithParam<ComputeType> {};

TEST_P(EngineLogits, AgreeWithTransformers) {
  EngineConfig config = demo_config();
  config.compute = GetParam();
  const auto engine = Engine::create(config);
  const auto outcomes = run_all(*engine);
  // As in tests/model/forward_test.cpp: 6 layers, so 8 * sqrt(60) * eps; the fixture has 6 digits.
  const double eps = GetParam() == ComputeType::kBf16 ? 0x1p-9 : 0x1p-24;
  const double tolerance = 8 * std::sqrt(60.0) * eps + 1e-6;
  for (size_t i = 0; i < prompts().size(); ++i) {
    const auto& answer = std::get<Answer>(outcomes[i]);
    const auto& expected = prompts()[i].logits;
    double difference = 0;
    double norm = 0;
    for (size_t c = 0; c < expected.size(); ++c) {
      difference += std::pow(answer.logits[c] - expected[c], 2);
      norm += std::pow(expected[c], 2);
    }
    EXPECT_LE(std::sqrt(difference / norm), tolerance) << prompts()[i].task << " " << i;
    EXPECT_EQ(answer.best, static_cast<size_t>(std::ranges::max_element(expected) - expected.begin())) << i;
    EXPECT_EQ(answer.prompt_tokens, static_cast<int64_t>(prompts()[i].ids.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EngineLogits, ::testing::Values(ComputeType::kF32, ComputeType::kBf16),
                         [](const auto& test) { return test.param == ComputeType::kF32 ? "f32" : "bf16"; });

class EngineBits : public ::testing::TestWithParam<ComputeType> {};

// Caching, batching, chunking and threads are about speed alone.
TEST_P(EngineBits, AreTheSameHoweverTheEngineIsRun) {
  EngineConfig base = demo_config();
  base.compute = GetParam();
  const auto expected = bits_of(run_all(*Engine::create(base)));

  EngineConfig no_cache = base;
  no_cache.kv_cache_bytes = 0;
  EngineConfig tiny_steps = base;
  tiny_steps.step_tokens = 1;
  EngineConfig tiny_cache = base;
  tiny_cache.kv_cache_bytes = 40 * 24576;
  EngineConfig odd_chunks = base;
  odd_chunks.chunk_tokens = 37;
  EngineConfig one_thread = base;
  one_thread.threads = 1;
  for (const EngineConfig& config : {no_cache, tiny_steps, tiny_cache, odd_chunks, one_thread}) {
    const auto engine = Engine::create(config);
    EXPECT_EQ(bits_of(run_all(*engine)), expected);
    EXPECT_EQ(bits_of(run_all(*engine, true)), expected) << "a second time, as token ids";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EngineBits, ::testing::Values(ComputeType::kF32, ComputeType::kBf16),
                         [](const auto& test) { return test.param == ComputeType::kF32 ? "f32" : "bf16"; });

TEST(Engine, ReusesPrefixesWithinAndAcrossRuns) {
  const auto engine = Engine::create(demo_config());
  (void)run_all(*engine);
  const EngineStats first = engine->stats();
  EXPECT_EQ(first.answered, 20);
  EXPECT_GT(first.cached_tokens, first.prompt_tokens / 2) << "four prompts a task share its instructions";
  EXPECT_EQ(first.cached_tokens + first.computed_tokens, first.prompt_tokens);
  (void)run_all(*engine);
  const int64_t computed_again = engine->stats().computed_tokens - first.computed_tokens;
  EXPECT_LE(computed_again, 20 * 16) << "of a prompt seen before, at most its last block is computed";
}

TEST(Engine, StepsAllocateNothing) {
  std::map<std::string, EngineConfig> configs;
  configs["resident"] = demo_config();
  for (const auto& [name, mode] : {std::pair{"host", ExpertMode::kHost}, std::pair{"gathered", ExpertMode::kGathered},
                                   std::pair{"hybrid", ExpertMode::kHybrid}}) {
    configs[name] = demo_config();
    configs[name].ranks = mode == ExpertMode::kHost ? 1 : 2;
    configs[name].experts.mode = mode;
    configs[name].experts.rank_bytes = uint64_t{5} << 20;
  }
  for (const auto& [name, config] : configs) {
    SCOPED_TRACE(name);
    const auto engine = Engine::create(config);
    const EngineStats warm = engine->stats();  // before the first step, which takes no more than others
    for (int round = 0; round < 3; ++round) (void)run_all(*engine, round % 2 == 0);
    const EngineStats stats = engine->stats();
    EXPECT_GT(stats.steps, warm.steps);
    for (size_t r = 0; r < stats.ranks.size(); ++r) {
      EXPECT_GT(warm.ranks[r].allocations, 0);
      EXPECT_EQ(stats.ranks[r].allocations, warm.ranks[r].allocations) << "rank " << r;
    }
  }
}

TEST(Engine, CountsWhenItsDevicesHadAStep) {
  const auto engine = Engine::create(demo_config());
  EXPECT_GT(engine->stats().weight_bytes, uint64_t{5} << 20);  // the file has about twice that
  EXPECT_GT(engine->stats().weight_load_rate(), 0);
  for (int round = 0; round < 2; ++round) (void)run_all(*engine);
  const RankStats rank = engine->stats().ranks.front();
  EXPECT_GT(rank.busy_seconds, 0);
  EXPECT_LE(rank.busy_seconds, rank.compute_seconds);  // the host's view has its own work too
  EXPECT_LE(rank.busy_seconds, rank.active_seconds);
  EXPECT_GE(rank.idle_fraction(), 0);
  EXPECT_LT(rank.idle_fraction(), 1);
}

TEST(Engine, SaltsKeepPrefixesApart) {
  const auto engine = Engine::create(demo_config());
  std::vector<int64_t> cached;
  for (const char* salt : {"a", "a", "b"}) {
    Request request;
    request.context = prompts()[0].text;
    request.candidates = {prompts()[0].label_ids[0]};
    request.cache_salt = salt;
    (void)engine->submit(request,
                         [&](uint64_t, Outcome outcome) { cached.push_back(std::get<Answer>(outcome).cached_tokens); });
    engine->drain();
  }
  EXPECT_EQ(cached[0], 0);
  EXPECT_GT(cached[1], 0);
  EXPECT_EQ(cached[2], 0);
}

TEST(Engine, RefusesBadRequestsByNameAndGoesOn) {
  const auto engine = Engine::create(demo_config());
  const auto refuse = [&](Request request, std::initializer_list<std::string_view> parts) {
    expect_error([&] { (void)engine->submit(request, [](uint64_t, const Outcome&) { FAIL(); }); },
                 ErrorCode::kInvalidArgument, parts);
  };
  const auto request_of = [](Context context, std::vector<Candidate> candidates) {
    Request request;
    request.context = std::move(context);
    request.candidates = std::move(candidates);
    return request;
  };
  refuse(request_of("", {1}), {"empty"});
  refuse(request_of(std::vector<int32_t>(2049, 5), {1}), {"2049", "2048"});
  refuse(request_of(std::vector<int32_t>{1, 4096}, {1}), {"element 1", "4096"});
  refuse(request_of(std::vector<int32_t>{-1}, {1}), {"element 0", "-1"});
  refuse(request_of("a\xff", {1}), {"UTF-8", "1"});
  refuse(request_of("a", {}), {"0 candidates"});
  refuse(request_of("a", {4096}), {"4096"});
  refuse(request_of("a", {" Yes or no, who knows"}), {" Yes or no, who knows", "not one token"});
  refuse(request_of("a", {""}), {"not one token"});
  refuse(request_of("a", {7, 5, 6, 5}), {"candidates 1 and 3 are the same token, 5"});
  (void)run_all(*engine);
  EXPECT_EQ(engine->stats().answered, 20);
}

TEST(Engine, CandidatesMayBeText) {
  const auto engine = Engine::create(demo_config());
  const Prompt& prompt = prompts()[0];
  Request by_text;
  by_text.context = prompt.text;
  by_text.candidates = {" A", " B"};
  Answer answer;
  (void)engine->submit(by_text, [&](uint64_t, Outcome outcome) { answer = std::get<Answer>(outcome); });
  engine->drain();
  EXPECT_NEAR(answer.logits[0], prompt.logits[0], 0.5);
  EXPECT_NEAR(answer.logits[1], prompt.logits[1], 0.5);
  EXPECT_EQ(engine->candidate_token(prompt.text, " A"), prompt.label_ids[0]);
}

TEST(Inspect, ReportsTheShippedModel) {
  const ModelReport report = inspect_model(kRoot / "models/demo-moe");
  EXPECT_EQ(report.family, "qwen3_moe");
  EXPECT_EQ(report.layers, 6);
  EXPECT_EQ(report.experts, 8);
  // The file's tensors, all bf16: embeddings are tied.
  EXPECT_EQ(report.weight_bytes_bf16, report.checkpoint_bytes);
  EXPECT_TRUE(report.problems.empty());
}

}  // namespace
}  // namespace zp
