// FLOPs against the multiply-adds of a real forward pass: every operation of the reference that multiplies matrices is
// counted as it is called, by loops over what it does.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/model/model_under_test.h"
#include "zp/ops/forwarded_ops.h"
#include "zp/shape/flops.h"

namespace zp {
namespace {

// Multiply-adds by operation, in FLOPs.
struct Counts {
  int64_t linear = 0;
  int64_t attention = 0;
  int64_t experts = 0;
  int64_t head = 0;
};

int64_t product(int64_t rows, int64_t inputs, int64_t outputs) {
  int64_t flops = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i) flops += 2;
  return flops;
}

/// The operations of `inner`, counted.
class CountingOps final : public ForwardedOps {
 public:
  CountingOps(std::unique_ptr<Ops> inner, Counts& counts) : ForwardedOps(std::move(inner)), counts_(counts) {}

  void linear(Stream& stream, const LinearArgs& args) override {
    counts_.linear += product(args.x.dim(0), args.weight->k, args.weight->n);
    inner().linear(stream, args);
  }
  void attention(Stream& stream, const AttentionArgs& args) override {
    for (const AttentionSequence& sequence : args.sequences) {
      int64_t cached = 0;
      for (const KvExtent& extent : sequence.prefix) cached += extent.tokens;
      for (int64_t head = 0; head < args.q.dim(1); ++head)
        for (int64_t t = 0; t < sequence.tokens; ++t)
          for (int64_t key = 0; key <= cached + t; ++key) counts_.attention += 2 * product(1, args.q.dim(2), 1);
    }
    inner().attention(stream, args);
  }
  void moe(Stream& stream, const MoeArgs& args) override {
    for (int64_t i = 0; i < args.ids.elements(); ++i) {
      counts_.experts += 2 * product(1, args.size.hidden, args.size.intermediate);  // gate and up
      counts_.experts += product(1, args.size.intermediate, args.size.hidden);      // down
    }
    inner().moe(stream, args);
  }
  void head(Stream& stream, const HeadArgs& args) override {
    counts_.head += product(args.x.dim(0), args.weight->k, args.weight->n);
    inner().head(stream, args);
  }

 private:
  Counts& counts_;
};

class CountedFlops : public testing::TestWithParam<const char*> {};

TEST_P(CountedFlops, AreTheShapesExactly) {
  Counts counts;
  const std::filesystem::path folder = std::filesystem::path(ZP_SOURCE_DIR) / "tests/data/models" / GetParam();
  test::ModelUnderTest model(folder, {.reference = true, .chunk_tokens = 16, .wrap = [&](std::unique_ptr<Ops> ops) {
                                        return std::make_unique<CountingOps>(std::move(ops), counts);
                                      }});
  const ModelShape& shape = model.shape();
  std::vector<int32_t> long_text(37);
  std::vector<int32_t> short_text(5);
  for (size_t i = 0; i < long_text.size(); ++i) long_text[i] = static_cast<int32_t>(i) % shape.vocabulary;
  const std::vector<test::ModelUnderTest::Part> parts = {{long_text, 0, {}}, {short_text, 0, {}}};
  (void)model.run(parts);

  const LinearFlops linear = linear_flops_all_layers(shape);
  EXPECT_EQ(counts.linear, (37 + 5) * (linear.projections + linear.router + linear.dense));
  EXPECT_EQ(counts.experts, (37 + 5) * linear.experts);
  EXPECT_EQ(counts.attention, attention_flops_all_layers(shape, {.prefix = 0, .suffix = 37}) +
                                  attention_flops_all_layers(shape, {.prefix = 0, .suffix = 5}));
  EXPECT_EQ(counts.head, 2 * head_flops(shape));
}

// A suffix after a prefix that an earlier segment of the step computes.
TEST_P(CountedFlops, AreThoseOfTheSuffixWhenAPrefixIsReused) {
  Counts counts;
  const std::filesystem::path folder = std::filesystem::path(ZP_SOURCE_DIR) / "tests/data/models" / GetParam();
  test::ModelUnderTest model(folder, {.reference = true, .wrap = [&](std::unique_ptr<Ops> ops) {
                                        return std::make_unique<CountingOps>(std::move(ops), counts);
                                      }});
  const ModelShape& shape = model.shape();
  const std::vector<int32_t> text(32 + 7, 3);
  const std::vector<test::ModelUnderTest::Part> first = {{std::span(text).first(32), 0, {}}};
  std::vector<test::ModelUnderTest::Part> both = first;
  both.push_back({text, 32, {KvRun{.place = KvRun::Place::kStep, .index = 0, .tokens = 32}}});
  (void)model.run(both);
  EXPECT_EQ(counts.attention, attention_flops_all_layers(shape, {.prefix = 0, .suffix = 32}) +
                                  attention_flops_all_layers(shape, {.prefix = 32, .suffix = 7}));
  EXPECT_EQ(counts.experts, (32 + 7) * linear_flops_all_layers(shape).experts);
}

INSTANTIATE_TEST_SUITE_P(Models, CountedFlops, testing::Values("moe_f32", "mixed_layers_bf16", "tied_sharded_f16"));

}  // namespace
}  // namespace zp
