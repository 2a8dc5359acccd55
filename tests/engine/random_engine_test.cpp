// Engines of random models: the same answers wherever experts live, and routes as they were asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "tests/support/current_folder.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "zeroprefill/engine.h"
#include "zp/engine/source.h"
#include "zp/model/random_model.h"

namespace zp {
namespace {

using test::expect_error;
using ::testing::HasSubstr;

const std::string kTiny = std::string(ZP_SOURCE_DIR) + "/tests/data/models/aligned_bf16";

EngineConfig random_config() {
  EngineConfig config;
  config.model = "random:" + kTiny;
  config.compute = ComputeType::kF32;
  config.threads = 1;
  return config;
}

// Requests of different lengths, a block and more of prefix in common.
std::vector<Request> requests(int32_t vocabulary) {
  std::vector<Request> made;
  for (int32_t r = 0; r < 12; ++r) {
    std::vector<int32_t> ids;
    for (int32_t p = 0; p < 20 + 3 * r; ++p) ids.push_back((p < 18 ? 7 * p : 11 * p + 5 * r) % vocabulary);
    made.push_back({.context = ids, .candidates = {0, 1, vocabulary - 1}, .cache_salt = "", .priority = 0});
  }
  return made;
}

struct Ran {
  std::vector<std::vector<float>> logits;  // [requests]
  EngineStats stats;
};

Ran run(const EngineConfig& config) {
  const std::unique_ptr<Engine> engine = Engine::create(config);
  std::mutex mutex;
  std::map<uint64_t, std::vector<float>> by_id;
  for (const Request& request : requests(engine->stats().vocabulary))
    (void)engine->submit(request, [&](uint64_t id, const Outcome& outcome) {
      const std::lock_guard lock(mutex);
      by_id[id] = std::get<Answer>(outcome).logits;
    });
  engine->drain();
  Ran done{.logits = {}, .stats = engine->stats()};
  for (const auto& [id, logits] : by_id) done.logits.push_back(logits);
  return done;
}

TEST(RandomEngine, AnswersAreTheSameWhereverExpertsLive) {
  const Ran resident = run(random_config());
  ASSERT_EQ(resident.logits.size(), 12U);
  EXPECT_NE(resident.logits[0], resident.logits[1]);
  std::map<std::string, EngineConfig> others;
  for (const char* name : {"gathered", "host", "hybrid", "fetched", "dp+ep", "pp+pp", "small chunks"})
    others[name] = random_config();
  others["gathered"].ranks = 2;
  others["gathered"].experts.mode = ExpertMode::kGathered;
  others["host"].experts.mode = ExpertMode::kHost;
  others["hybrid"].ranks = 2;
  others["hybrid"].experts.mode = ExpertMode::kHybrid;
  others["hybrid"].experts.rank_bytes = uint64_t{1} << 20;
  others["fetched"].experts.mode = ExpertMode::kHost;
  others["fetched"].experts.below_threshold = BelowThreshold::kFetchRouted;
  others["dp+ep"].ranks = 2;
  others["dp+ep"].strategy = "dp+ep";
  others["pp+pp"].ranks = 2;
  others["pp+pp"].strategy = "pp+pp";
  others["small chunks"].chunk_tokens = 7;
  for (const auto& [name, config] : others) EXPECT_EQ(run(config).logits, resident.logits) << name;
}

TEST(RandomEngine, SeedAndSkewMakeAnotherModel) {
  const Ran first = run(random_config());
  EngineConfig seed = random_config();
  seed.random.seed = 2;
  EngineConfig skew = random_config();
  skew.random.expert_skew = 2;
  EXPECT_NE(run(seed).logits, first.logits);
  EXPECT_NE(run(skew).logits, first.logits);
}

// What is reported against a count of every token's experts.
TEST(RandomEngine, ReportsTheSkewThatCameOut) {
  EngineConfig config = random_config();
  config.random.expert_skew = 2;
  config.kv_cache_bytes = 0;
  const Ran done = run(config);
  ASSERT_TRUE(done.stats.routes.has_value());
  EXPECT_EQ(done.stats.routes->asked_skew, 2);
  EXPECT_EQ(done.stats.routes->tokens, done.stats.computed_tokens);
  EXPECT_FALSE(run(random_config()).stats.routes->skew_mean == done.stats.routes->skew_mean);

  // One request of many tokens, alone.
  const std::unique_ptr<Engine> engine = Engine::create(config);
  std::vector<int32_t> ids;
  for (int32_t p = 0; p < 120; ++p) ids.push_back(p % engine->stats().vocabulary);
  (void)engine->submit({.context = ids, .candidates = {0}, .cache_salt = "", .priority = 0}, [](uint64_t, auto) {});
  engine->drain();
  const std::unique_ptr<WeightSource> source = open_source(config);
  const ModelShape& m = source->shape();
  double sum = 0;
  double largest = 0;
  for (int32_t l = 0; l < m.layers; ++l) {
    std::vector<double> counts(static_cast<size_t>(m.experts));
    for (size_t p = 0; p < ids.size(); ++p) {
      const int64_t row = drawn_route(ids[p], static_cast<int32_t>(p), kRouteTableRows);
      for (int32_t j = 0; j < m.experts_per_token; ++j)
        ++counts[static_cast<size_t>(source->route_table(l)[static_cast<size_t>(row * m.experts_per_token + j)])];
    }
    const auto [least, most] = std::ranges::minmax(counts);
    sum += most / least;
    largest = std::max(largest, most / least);
  }
  const RouteStats routes = *engine->stats().routes;
  EXPECT_EQ(routes.tokens, 120);
  EXPECT_DOUBLE_EQ(routes.skew_mean, sum / m.layers);
  EXPECT_DOUBLE_EQ(routes.skew_max, largest);
}

TEST(RandomEngine, ContextsMayBeLongerThanTheShapeWasMadeFor) {
  EngineConfig config = random_config();
  EXPECT_EQ(open_source(config)->shape().max_positions, random_model_shape(kTiny, 0).max_positions);
  config.max_context_tokens = 100'000;
  EXPECT_EQ(open_source(config)->shape().max_positions, 100'000);
}

TEST(RandomEngine, AKnownModelIsSpelledAsKnownAndAFolderAsItIs) {
  EngineConfig config;
  config.model = "random:qwen/qwen3-30b-a3b";
  config.random.layers = 4;
  EXPECT_EQ(model_name(config), "Qwen3-30B-A3B");
  config.model = "random:" + kTiny + "/";
  EXPECT_EQ(model_name(config), "aligned_bf16");
  const test::TemporaryFolder folder;
  const std::filesystem::path named = folder.path() / "qwen3-30b-a3b";
  std::filesystem::create_directory_symlink(kTiny, named);
  for (const char* prefix : {"random:", ""}) {
    config.model = prefix + named.string();
    EXPECT_EQ(model_name(config), "qwen3-30b-a3b");
  }
}

TEST(RandomEngine, NamesNeedNoCurrentFolder) {
  const test::TemporaryFolder folder;
  const std::filesystem::path gone = folder.path() / "gone";
  std::filesystem::create_directory(gone);
  const test::CurrentFolder at(gone);
  std::filesystem::remove(gone);
  EngineConfig config;
  config.model = "random:Qwen3-30B-A3B";
  EXPECT_EQ(model_name(config), "Qwen3-30B-A3B");
  config.model = "m/demo-moe";
  EXPECT_EQ(model_name(config), "demo-moe");
  EXPECT_EQ(model_revision(config), "m/demo-moe");
}

TEST(RandomEngine, TextWantsATokenizer) {
  const std::string demo = std::string(ZP_SOURCE_DIR) + "/models/demo-moe";
  EngineConfig config = random_config();
  EXPECT_TRUE(tokenizer_folder(config).empty());
  config.tokenizer = demo;
  EXPECT_EQ(tokenizer_folder(config), demo);
  config.tokenizer.clear();
  config.model = "random:" + demo;
  EXPECT_EQ(tokenizer_folder(config), demo);  // that of the folder
  (void)Engine::create(config)->submit({.context = "hello", .candidates = {" Yes"}, .cache_salt = "", .priority = 0},
                                       [](uint64_t, const Outcome&) {});
  const std::unique_ptr<Engine> engine = Engine::create(random_config());
  expect_error(
      [&] {
        (void)engine->submit({.context = "hello", .candidates = {0}, .cache_salt = "", .priority = 0},
                             [](uint64_t, const Outcome&) {});
      },
      ErrorCode::kInvalidArgument, {"no tokenizer"});
}

TEST(RandomEngine, RefusesWhatMakesNoSense) {
  EngineConfig checkpoint;
  checkpoint.model = kTiny;
  checkpoint.random.layers = 1;
  EXPECT_THAT(validate(checkpoint), ::testing::ElementsAre(HasSubstr("random models alone")));
  EngineConfig strategy = random_config();
  strategy.ranks = 2;
  strategy.strategy = "tp+tp";
  EXPECT_THAT(validate(strategy), ::testing::ElementsAre(HasSubstr("tp+tp")));
  EngineConfig layers = random_config();
  layers.random.layers = 1000;
  expect_error([&] { (void)Engine::create(layers); }, ErrorCode::kInvalidArgument, {"1000"});
}

}  // namespace
}  // namespace zp
