// Known shapes against the totals that their model cards state.
#include "zp/shape/known_models.h"

#include <gtest/gtest.h>

#include "zp/shape/flops.h"

namespace zp {
namespace {

const ModelShape& shape(std::string_view name) { return find_known_model(name)->shape; }

double billions(int64_t count) { return static_cast<double>(count) / 1e9; }

TEST(KnownModels, AreFoundWhateverTheCaseAndTheOrganisation) {
  ASSERT_NE(find_known_model("qwen3-30b-a3b"), nullptr);
  EXPECT_EQ(find_known_model("Qwen/Qwen3-30B-A3B"), find_known_model("qwen3-30b-a3b"));
  EXPECT_EQ(find_known_model("Qwen3-30B"), nullptr);
  EXPECT_EQ(find_known_model(""), nullptr);
  EXPECT_EQ(known_model_names(), "DeepSeek-V3, GLM-4.5, gpt-oss-120b, Mixtral-8x7B, Qwen3-235B-A22B, Qwen3-30B-A3B");
}

TEST(KnownModels, AreNotFoundByPaths) {
  for (const char* path : {"./Qwen3-30B-A3B", "../Qwen3-30B-A3B", ".Qwen/Qwen3-30B-A3B", "/Qwen3-30B-A3B",
                           "~/Qwen3-30B-A3B", "Qwen3-30B-A3B/", "Qwen/Qwen3-30B-A3B/", "/models/Qwen3-30B-A3B",
                           "models/Qwen/Qwen3-30B-A3B", "Qwen//Qwen3-30B-A3B"})
    EXPECT_EQ(find_known_model(path), nullptr) << path;
}

TEST(KnownModels, HoldTogether) {
  for (const KnownModel& model : known_models()) {
    EXPECT_TRUE(validate(model.shape).empty()) << model.name;
    EXPECT_EQ(find_known_model(model.name), &model);
    EXPECT_EQ(model.planned_only.empty(),
              model.shape.planning == PlanningFeatures{} && model.shape.family == "qwen3_moe")
        << model.name;
  }
}

// Model cards: Qwen3 30.5B / 3.3B (29.9B without embeddings) and 235B / 22B; Mixtral 46.7B / 12.9B; gpt-oss 117B / 5.1B
// (its card counts the active ones without the embedding); DeepSeek-V3 671B / 37B, 36.6B in its README_WEIGHTS; GLM-4.5
// 355B / 32B.
TEST(KnownModels, HaveTheParametersThatTheirCardsState) {
  EXPECT_NEAR(billions(parameter_counts(shape("Qwen3-30B-A3B")).total()), 30.5, 0.05);
  EXPECT_NEAR(billions(active_parameters(shape("Qwen3-30B-A3B"))), 3.3, 0.06);
  EXPECT_NEAR(billions(parameter_counts(shape("Qwen3-235B-A22B")).total()), 235, 0.5);
  EXPECT_NEAR(billions(active_parameters(shape("Qwen3-235B-A22B"))), 22, 0.5);
  EXPECT_NEAR(billions(parameter_counts(shape("Mixtral-8x7B")).total()), 46.7, 0.05);
  EXPECT_NEAR(billions(active_parameters(shape("Mixtral-8x7B"))), 12.9, 0.05);
  const ModelShape& oss = shape("gpt-oss-120b");
  EXPECT_NEAR(billions(parameter_counts(oss).total()), 116.8, 0.2);
  EXPECT_NEAR(billions(active_parameters(oss) - parameter_counts(oss).embedding), 5.13, 0.05);
  const ModelShape& deepseek = shape("DeepSeek-V3");
  EXPECT_NEAR(billions(parameter_counts(deepseek).total()), 671, 0.5);
  EXPECT_NEAR(billions(active_parameters(deepseek) - parameter_counts(deepseek).embedding), 36.6, 0.1);
  EXPECT_NEAR(billions(parameter_counts(shape("GLM-4.5")).total()), 355, 3);
  EXPECT_NEAR(billions(active_parameters(shape("GLM-4.5"))), 32, 1.7);
}

TEST(KnownModels, KeepLatentsInsteadOfKeysAndValues) {
  // DeepSeek-V3's report: 576 elements a token and layer.
  EXPECT_EQ(layer_kv_bytes_per_token(shape("DeepSeek-V3"), 2), 2 * 576);
  EXPECT_EQ(layer_kv_bytes_per_token(shape("gpt-oss-120b"), 2), 2 * 2 * 8 * 64);
}

}  // namespace
}  // namespace zp
