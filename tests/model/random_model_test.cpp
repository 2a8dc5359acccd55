// Random models: which shapes there are, what is drawn, and how experts are shared out.
#include "zp/model/random_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "tests/support/compare.h"
#include "tests/support/current_folder.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "zp/device/factory.h"
#include "zp/model/weights.h"
#include "zp/ops/factory.h"
#include "zp/shape/known_models.h"

namespace zp::test {
namespace {

const std::string kTiny = std::string(ZP_SOURCE_DIR) + "/tests/data/models/aligned_bf16";

RandomModel tiny(const RandomModelSpec& spec = {}) { return {random_model_shape(kTiny, 0), spec}; }

// Counted by hand: how often each expert stands in a table.
std::vector<int64_t> counts_of(const std::vector<int32_t>& table, int32_t experts) {
  std::vector<int64_t> counts(static_cast<size_t>(experts));
  for (const int32_t id : table) ++counts.at(static_cast<size_t>(id));
  return counts;
}

TEST(RandomModel, HasKnownShapesAndThoseOfFolders) {
  const ModelShape known = random_model_shape("Qwen3-30B-A3B", 0);
  EXPECT_EQ(known.layers, 48);
  EXPECT_EQ(known.experts, 128);
  const ModelShape cut = random_model_shape("qwen/qwen3-235b-a22b", 22);
  EXPECT_EQ(cut.layers, 22);
  EXPECT_EQ(cut.feed_forward.size(), 22U);
  EXPECT_EQ(cut.hidden, 4096);
  EXPECT_GT(random_model_shape(kTiny, 0).experts, 1);
}

// A folder goes first, however it is written; one without a config.json is none.
TEST(RandomModel, IsOfTheFolderThatHasAKnownModelsName) {
  const TemporaryFolder folder;
  const std::filesystem::path named = folder.path() / "Qwen3-30b-a3b";
  std::filesystem::create_directory_symlink(kTiny, named);
  const int32_t layers = random_model_shape(kTiny, 0).layers;
  for (const std::string& path : {named.string(), named.string() + "/"}) {
    EXPECT_EQ(known_by_name(path), nullptr);
    EXPECT_EQ(random_model_shape(path, 0).layers, layers);
  }
  const CurrentFolder at(folder.path());
  EXPECT_EQ(known_by_name("Qwen3-30b-a3b"), nullptr);
  EXPECT_EQ(random_model_shape("Qwen3-30b-a3b", 0).layers, layers);
  std::filesystem::remove(named);
  std::filesystem::create_directory(named);
  EXPECT_EQ(known_by_name("Qwen3-30b-a3b"), find_known_model("Qwen3-30B-A3B"));
  EXPECT_EQ(random_model_shape("Qwen3-30b-a3b", 0).layers, 48);
  expect_error([&] { (void)random_model_shape(named, 0); }, ErrorCode::kNotFound, {"nor a folder with a config.json"});
}

TEST(RandomModel, RefusesByNameWhatItCannotRun) {
  expect_error([] { (void)random_model_shape("DeepSeek-V3", 0); }, ErrorCode::kUnsupported,
               {"DeepSeek-V3", "latent attention"});
  expect_error([] { (void)random_model_shape("Mixtral-8x7B", 2); }, ErrorCode::kUnsupported, {"Mixtral-8x7B"});
  expect_error([] { (void)random_model_shape("nothing", 0); }, ErrorCode::kNotFound, {"nothing", "Qwen3-30B-A3B"});
  expect_error([] { (void)random_model_shape("Qwen3-30B-A3B", 49); }, ErrorCode::kInvalidArgument, {"48", "49"});
  expect_error([] { (void)tiny({.expert_skew = 0.5}); }, ErrorCode::kInvalidArgument, {"0.5"});
  expect_error([] { (void)tiny({.expert_skew = 1e6}); }, ErrorCode::kInvalidArgument, {"1000000"});
}

TEST(RandomModel, QuotasKeepTheirSumAndTheirRatio) {
  for (const double skew : {1.0, 3.0, 16.0}) {
    const std::vector<int64_t> quotas = expert_quotas(128, 4096, 8, skew);
    EXPECT_EQ(std::accumulate(quotas.begin(), quotas.end(), int64_t{0}), 4096 * 8);
    // Rounding moves each by less than one.
    const auto most = static_cast<double>(quotas.front());
    const auto least = static_cast<double>(quotas.back());
    EXPECT_GT((most + 1) / (least - 1), skew);
    EXPECT_LT((most - 1) / (least + 1), skew);
    EXPECT_EQ(quotas.front(), std::ranges::max(quotas));
  }
}

TEST(RandomModel, TablesHaveEveryExpertAsOftenAsItsQuotaAndNoneTwiceInARow) {
  for (const double skew : {1.0, 3.0}) {
    const RandomModel model = tiny({.seed = 5, .expert_skew = skew});
    const ModelShape& m = model.shape();
    const auto chosen = static_cast<size_t>(m.experts_per_token);
    const std::vector<int32_t> table = model.route_table(0);
    ASSERT_EQ(table.size(), static_cast<size_t>(kRouteTableRows) * chosen);
    std::vector<int64_t> counts = counts_of(table, m.experts);
    std::ranges::sort(counts, std::greater<>());
    std::vector<int64_t> quotas = expert_quotas(m.experts, kRouteTableRows, m.experts_per_token, skew);
    std::ranges::sort(quotas, std::greater<>());
    EXPECT_EQ(counts, quotas);
    for (size_t row = 0; row < table.size(); row += chosen) {
      std::vector<int32_t> ids(table.begin() + static_cast<std::ptrdiff_t>(row),
                               table.begin() + static_cast<std::ptrdiff_t>(row + chosen));
      std::ranges::sort(ids);
      ASSERT_EQ(std::ranges::adjacent_find(ids), ids.end());
    }
    EXPECT_EQ(model.route_table(0), table);
    EXPECT_NE(model.route_table(1), table);
  }
}

// Pairs of experts of one row: dealing alone would leave most of the pairs out.
TEST(RandomModel, TablesMixExpertsWithOneAnother) {
  const RandomModel model(random_model_shape("Qwen3-30B-A3B", 1), {});
  const std::vector<int32_t> table = model.route_table(0);
  std::vector<bool> met(128 * 128);
  for (size_t row = 0; row < table.size(); row += 8)
    for (size_t a = row; a < row + 8; ++a)
      for (size_t b = row; b < row + 8; ++b) met[static_cast<size_t>(table[a] * 128 + table[b])] = true;
  // 229,376 ordered pairs fall on 16,256 places: of a place, e^-14 stay empty.
  EXPECT_GT(std::count(met.begin(), met.end(), true), 16'000);
}

TEST(RandomModel, AShardHasTheElementsOfTheWholeModel) {
  const RandomModel model = tiny();
  const ModelShape& m = model.shape();
  const std::unique_ptr<Device> device = make_device({.kind = DeviceKind::kCpu});
  const std::unique_ptr<Ops> ops = make_ops(*device, {.activation = DType::kF32, .reference = true, .limits = {}});
  ModelShard shard = whole_model(m);
  shard.expert_intermediate = {m.expert_intermediate / 2, m.expert_intermediate / 2};
  const ExpertReader whole(model, *ops);
  const ExpertReader half(model, *ops, shard);
  const Buffer whole_blob = device->allocate(whole.blob_bytes());
  const Buffer half_blob = device->allocate(half.blob_bytes());
  whole.read(1, 2, whole_blob.bytes());
  half.read(1, 2, half_blob.bytes());
  const auto* all = reinterpret_cast<const float*>(whole_blob.data());
  const auto* part = reinterpret_cast<const float*>(half_blob.data());
  // The reference's blob: gate [I, H], up [I, H], down [H, I].
  const auto h = static_cast<size_t>(m.hidden);
  const auto i_whole = static_cast<size_t>(m.expert_intermediate);
  const size_t i_half = i_whole / 2;
  for (size_t i = 0; i < i_half; ++i)
    for (size_t c = 0; c < h; ++c) {
      ASSERT_EQ(part[i * h + c], all[(i_half + i) * h + c]);
      ASSERT_EQ(part[(i_half + i) * h + c], all[(i_whole + i_half + i) * h + c]);
      ASSERT_EQ(part[2 * i_half * h + c * i_half + i], all[2 * i_whole * h + c * i_whole + i_half + i]);
    }
}

TEST(RandomModel, WeightsFollowSeedAndName) {
  const std::unique_ptr<Device> device = make_device({.kind = DeviceKind::kCpu});
  const std::unique_ptr<Ops> ops = make_ops(*device, {.activation = DType::kF32, .reference = true, .limits = {}});
  const auto blob = [&](const RandomModel& model, int32_t layer, int32_t expert) {
    const ExpertReader reader(model, *ops);
    const Buffer packed = device->allocate(reader.blob_bytes());
    reader.read(layer, expert, packed.bytes());
    return std::vector<std::byte>(packed.bytes().begin(), packed.bytes().end());
  };
  const std::vector<std::byte> bytes = blob(tiny(), 0, 0);
  EXPECT_TRUE(same_bytes(blob(tiny(), 0, 0), bytes));
  EXPECT_FALSE(same_bytes(blob(tiny({.seed = 2}), 0, 0), bytes));
  EXPECT_FALSE(same_bytes(blob(tiny(), 0, 1), bytes));
  EXPECT_FALSE(same_bytes(blob(tiny(), 1, 0), bytes));
}

}  // namespace
}  // namespace zp::test
