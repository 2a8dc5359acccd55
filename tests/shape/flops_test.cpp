// FLOPs and bytes against loops that count multiply-adds one by one, and against published figures.
#include "zp/shape/flops.h"

#include <gtest/gtest.h>

namespace zp {
namespace {

ModelShape small_shape() {
  return {.family = "qwen3_moe",
          .layers = 3,
          .hidden = 6,
          .query_heads = 4,
          .kv_heads = 2,
          .head_dim = 2,
          .vocabulary = 11,
          .max_positions = 64,
          .experts = 5,
          .experts_per_token = 2,
          .expert_intermediate = 3,
          .dense_intermediate = 7,
          .feed_forward = {FeedForward::kDense, FeedForward::kMoe, FeedForward::kMoe},
          .qk_norm = true};
}

// Qwen3-235B-A22B and Qwen3-30B-A3B, as their config.json files have them.
ModelShape qwen3(int32_t layers, int32_t hidden, int32_t query_heads, int32_t expert_intermediate) {
  return {.family = "qwen3_moe",
          .layers = layers,
          .hidden = hidden,
          .query_heads = query_heads,
          .kv_heads = 4,
          .head_dim = 128,
          .vocabulary = 151936,
          .max_positions = 40960,
          .experts = 128,
          .experts_per_token = 8,
          .expert_intermediate = expert_intermediate,
          .dense_intermediate = 0,
          .feed_forward = std::vector<FeedForward>(static_cast<size_t>(layers), FeedForward::kMoe),
          .qk_norm = true};
}
ModelShape qwen3_235b() { return qwen3(94, 4096, 64, 1536); }
ModelShape qwen3_30b() { return qwen3(48, 2048, 32, 768); }

// 2 FLOPs for each multiply-add of a vector [inputs] times a matrix [inputs, outputs].
int64_t product(int64_t inputs, int64_t outputs) {
  int64_t flops = 0;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t i = 0; i < inputs; ++i) flops += 2;
  return flops;
}

TEST(Flops, LinearWorkIsWhatLoopsOverTheMatricesCount) {
  const ModelShape s = small_shape();
  const int64_t projections =
      product(6, 4 * 2) + product(6, 2 * 2) + product(6, 2 * 2) + product(4 * 2, 6);  // q, k, v, output
  int64_t experts = 0;
  for (int expert = 0; expert < 2; ++expert) experts += product(6, 3) + product(6, 3) + product(3, 6);

  const LinearFlops moe = linear_flops(s, FeedForward::kMoe);
  EXPECT_EQ(moe.projections, projections);
  EXPECT_EQ(moe.router, product(6, 5));
  EXPECT_EQ(moe.experts, experts);
  EXPECT_EQ(moe.dense, 0);

  const LinearFlops dense = linear_flops(s, FeedForward::kDense);
  EXPECT_EQ(dense.projections, projections);
  EXPECT_EQ(dense.dense, product(6, 7) + product(6, 7) + product(7, 6));
  EXPECT_EQ(dense.router, 0);
  EXPECT_EQ(dense.experts, 0);

  EXPECT_EQ(linear_flops_all_layers(s).total(), dense.total() + 2 * moe.total());
  EXPECT_EQ(head_flops(s), product(6, 11));
}

TEST(Flops, AttentionWorkIsWhatALoopOverVisiblePairsCounts) {
  const ModelShape s = small_shape();
  for (const int64_t prefix : {0, 1, 16, 48}) {
    for (const int64_t suffix : {1, 2, 15, 33}) {
      int64_t pairs = 0;
      int64_t flops = 0;
      for (int64_t query = prefix; query < prefix + suffix; ++query) {
        for (int64_t key = 0; key <= query; ++key) {
          ++pairs;
          for (int head = 0; head < 4; ++head) flops += product(2, 1) + product(1, 2);  // score; weighted value
        }
      }
      EXPECT_EQ(visible_pairs({.prefix = prefix, .suffix = suffix}), pairs);
      EXPECT_EQ(attention_flops(s, {.prefix = prefix, .suffix = suffix}), flops);
    }
  }
}

TEST(Flops, AWindowHidesWhatALoopDoesNotSee) {
  for (const int64_t window : {1, 2, 7, 16, 100}) {
    for (const int64_t prefix : {0, 1, 6, 16, 48}) {
      for (const int64_t suffix : {1, 2, 15, 33}) {
        int64_t pairs = 0;
        for (int64_t query = prefix; query < prefix + suffix; ++query)
          for (int64_t key = 0; key <= query; ++key) pairs += query - key < window ? 1 : 0;
        EXPECT_EQ(visible_pairs_in_window({.prefix = prefix, .suffix = suffix}, window), pairs)
            << window << " " << prefix << " " << suffix;
      }
    }
  }
  ModelShape s = small_shape();
  s.planning = {.sliding_window = 7, .sliding_layers = 2};
  const AttentionSpan span{.prefix = 16, .suffix = 5};
  const int64_t of_a_pair = 4 * (product(2, 1) + product(1, 2));
  EXPECT_EQ(attention_flops_all_layers(s, span), of_a_pair * (visible_pairs(span) + 2 * 5 * 7));
}

// Multi-head latent attention and shared experts, matrix by matrix.
TEST(Flops, LatentAttentionIsWhatLoopsOverItsMatricesCount) {
  ModelShape s = small_shape();
  s.kv_heads = 4;
  s.planning = {.latent_query_rank = 5,
                .latent_kv_rank = 3,
                .latent_rope_dim = 2,
                .latent_value_dim = 6,
                .shared_intermediate = 4};
  const int64_t queries = product(6, 5) + product(5, 4 * (2 + 2));
  const int64_t keys_and_values = product(6, 3 + 2) + product(3, 4 * (2 + 6));
  const int64_t output = product(4 * 6, 6);
  const LinearFlops moe = linear_flops(s, FeedForward::kMoe);
  EXPECT_EQ(moe.projections, queries + keys_and_values + output);
  EXPECT_EQ(moe.dense, product(6, 4) + product(6, 4) + product(4, 6));
  EXPECT_EQ(linear_flops(s, FeedForward::kDense).dense, product(6, 7) + product(6, 7) + product(7, 6));
  EXPECT_EQ(attention_flops(s, {.prefix = 0, .suffix = 1}), 4 * (product(2 + 2, 1) + product(1, 6)));
  EXPECT_EQ(layer_kv_bytes_per_token(s, 2), 2 * (3 + 2));
  const ParameterCounts counts = parameter_counts(s);
  EXPECT_EQ(counts.attention * 2, 3 * (queries + keys_and_values + output));
  EXPECT_EQ(counts.dense, 3 * 6 * 7 + 2 * 3 * 6 * 4);
  EXPECT_EQ(active_parameters(s), counts.total() - 2 * 3 * 3 * 6 * 3);  // 3 of 5 experts idle, in 2 layers
}

TEST(Flops, SplittingASequenceLeavesItsAttentionWork) {
  const ModelShape s = small_shape();
  EXPECT_EQ(attention_flops(s, {.prefix = 0, .suffix = 100}),
            attention_flops(s, {.prefix = 0, .suffix = 64}) + attention_flops(s, {.prefix = 64, .suffix = 36}));
}

TEST(Flops, AgreeWithThePublishedFiguresOfQwen3) {
  const ModelShape large = qwen3_235b();
  const ModelShape small = qwen3_30b();
  const auto mega = [](int64_t flops) { return static_cast<double>(flops) / 1e6; };
  // The published figures leave the router out; it is 1 in 400.
  const auto without_router = [&](const LinearFlops& flops) { return mega(flops.projections + flops.experts); };
  EXPECT_NEAR(without_router(linear_flops(large, FeedForward::kMoe)), 445, 0.5);
  EXPECT_NEAR(without_router(linear_flops(small, FeedForward::kMoe)), 113, 0.5);
  EXPECT_NEAR(without_router(linear_flops_all_layers(large)), 41.8e3, 50);
  EXPECT_NEAR(without_router(linear_flops_all_layers(small)), 5.44e3, 5);

  // A token, a token of context, on causal average: half a context is seen.
  const int64_t context = 4096;
  const auto per_context = [&](const ModelShape& s) {
    return static_cast<double>(s.layers) * mega(attention_flops(s, {.prefix = 0, .suffix = context})) /
           static_cast<double>(context * context);
  };
  EXPECT_NEAR(per_context(large), 1.54, 0.01);
  EXPECT_NEAR(per_context(small), 0.393, 0.001);
}

TEST(Bytes, AgreeWithThePublishedFiguresOfQwen3) {
  EXPECT_EQ(layer_expert_bytes(qwen3_235b(), 2), 4'831'838'208);
  EXPECT_EQ(layer_expert_bytes(qwen3_235b(), 1), 2'415'919'104);
  EXPECT_EQ(layer_expert_bytes(qwen3_30b(), 2), 1'207'959'552);
  EXPECT_EQ(expert_bytes(qwen3_30b(), 2), 1'207'959'552 / 128);
  EXPECT_EQ(kv_bytes_per_token(qwen3_235b(), 2), 192'512);
  EXPECT_EQ(kv_bytes_per_token(qwen3_30b(), 2), 98'304);
  EXPECT_EQ(layer_kv_bytes_per_token(qwen3_30b(), 2), 2048);
}

TEST(Parameters, AgreeWithThePublishedFiguresOfQwen3) {
  const ParameterCounts large = parameter_counts(qwen3_235b());
  const auto giga = [](int64_t count) { return static_cast<double>(count) / 1e9; };
  EXPECT_NEAR(giga(large.experts), 227.1, 0.1);
  EXPECT_NEAR(giga(large.attention), 6.70, 0.01);
  EXPECT_NEAR(giga(large.total()), 235.1, 0.1);
  const ParameterCounts small = parameter_counts(qwen3_30b());
  EXPECT_NEAR(giga(small.experts), 29.0, 0.1);
  EXPECT_NEAR(giga(small.attention), 0.91, 0.01);
  EXPECT_NEAR(giga(small.total()), 30.53, 0.01);
}

TEST(Parameters, CountEveryMatrixAndNormOnce) {
  ModelShape s = small_shape();
  const ParameterCounts counts = parameter_counts(s);
  EXPECT_EQ(counts.embedding, 11 * 6);
  EXPECT_EQ(counts.head, 11 * 6);
  EXPECT_EQ(counts.attention, 3 * (6 * 8 + 6 * 4 + 6 * 4 + 8 * 6));
  EXPECT_EQ(counts.router, 2 * 6 * 5);
  EXPECT_EQ(counts.experts, 2 * 5 * 3 * 6 * 3);
  EXPECT_EQ(counts.dense, 3 * 6 * 7);
  EXPECT_EQ(counts.norms, 3 * (6 + 6 + 2 + 2) + 6);  // before attention and feed-forward, of q and k heads; at the end
  s.tied_embeddings = true;
  EXPECT_EQ(parameter_counts(s).head, 0);
}

TEST(Bytes, ResidentMatricesAreAllThatIsNoExpert) {
  const ModelShape s = small_shape();
  const ParameterCounts counts = parameter_counts(s);
  const int64_t resident =
      layer_resident_bytes(s, FeedForward::kDense, 2) + 2 * layer_resident_bytes(s, FeedForward::kMoe, 2);
  EXPECT_EQ(resident, 2 * (counts.attention + counts.router + counts.dense));
}

}  // namespace
}  // namespace zp
