// Collectives of virtual ranks against plain loops, what they count, and that a failing rank leaves nobody waiting.
#include "zp/parallel/collectives.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>

#include "tests/parallel/group.h"
#include "tests/support/errors.h"

namespace zp {
namespace {

using test::GroupUnderTest;

constexpr TrafficTag kLayer2{.layer = 2, .use = TrafficUse::kActivations};

CollectivesSpec spec_of(int32_t ranks) { return {.kind = DeviceKind::kCpu, .ranks = ranks, .layers = 4, .pace = {}}; }

std::vector<std::string> nobody(int32_t ranks) { return std::vector<std::string>(static_cast<size_t>(ranks)); }

class Random final {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  // Some of them 0.
  std::vector<int64_t> counts(int32_t ranks) {
    std::vector<int64_t> all;
    for (int32_t r = 0; r < ranks; ++r) all.push_back(integer(0, 3) == 0 ? 0 : integer(1, 9));
    return all;
  }
  std::vector<float> values(int64_t count) {
    std::vector<float> all(static_cast<size_t>(count));
    for (float& value : all) value = std::normal_distribution<float>(0.0F, 1.0F)(engine_);
    return all;
  }

 private:
  std::mt19937_64 engine_;
};

int64_t sum_of(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }
int64_t before(const std::vector<int64_t>& counts, int32_t rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

// Every rank's values; [ranks][count].
using Values = std::vector<std::vector<float>>;

Values random_values(Random& random, int32_t ranks, int64_t count) {
  Values values;
  for (int32_t r = 0; r < ranks; ++r) values.push_back(random.values(count));
  return values;
}

// In order of ranks, as the interface promises.
float sum_at(const Values& values, size_t i) {
  float sum = values[0][i];
  for (size_t r = 1; r < values.size(); ++r) sum += values[r][i];
  return sum;
}

class CollectivesTest : public ::testing::TestWithParam<int32_t> {};

TEST_P(CollectivesTest, AllGatherGivesEveryRankAllRows) {
  const int32_t ranks = GetParam();
  GroupUnderTest group(spec_of(ranks));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t width = random.integer(1, 7);
    const std::vector<int64_t> rows = random.counts(ranks);
    const std::vector<float> expected = random.values(sum_of(rows) * width);
    Values data(static_cast<size_t>(ranks), std::vector<float>(expected.size(), -1.0F));
    for (int32_t r = 0; r < ranks; ++r)
      std::copy_n(expected.begin() + before(rows, r) * width, rows[static_cast<size_t>(r)] * width,
                  data[static_cast<size_t>(r)].begin() + before(rows, r) * width);
    EXPECT_EQ(group.run([&](int32_t r) {
      const TensorView view = view_of(data[static_cast<size_t>(r)].data(), {sum_of(rows), width});
      group.collectives(r).all_gather(group.stream(r), {view, rows}, kLayer2);
      group.stream(r).synchronize();
    }),
              nobody(ranks));
    for (const auto& of_rank : data) EXPECT_EQ(of_rank, expected);
  }
}

TEST_P(CollectivesTest, ReduceScatterSumsOwnRowsInOrderOfRanks) {
  const int32_t ranks = GetParam();
  GroupUnderTest group(spec_of(ranks));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t width = random.integer(1, 7);
    const std::vector<int64_t> rows = random.counts(ranks);
    const Values addends = random_values(random, ranks, sum_of(rows) * width);
    Values data = addends;
    EXPECT_EQ(group.run([&](int32_t r) {
      const TensorView view = view_of(data[static_cast<size_t>(r)].data(), {sum_of(rows), width});
      group.collectives(r).reduce_scatter(group.stream(r), {view, rows}, kLayer2);
    }),
              nobody(ranks));
    for (int32_t r = 0; r < ranks; ++r) {
      const auto own = static_cast<size_t>(r);
      for (int64_t i = before(rows, r) * width; i < before(rows, r + 1) * width; ++i)
        EXPECT_EQ(data[own][static_cast<size_t>(i)], sum_at(addends, static_cast<size_t>(i)));
    }
  }
}

TEST_P(CollectivesTest, AllReduceSumsEverythingInOrderOfRanks) {
  const int32_t ranks = GetParam();
  GroupUnderTest group(spec_of(ranks));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t rows = random.integer(0, 9);
    const int64_t width = random.integer(1, 7);
    const Values addends = random_values(random, ranks, rows * width);
    Values data = addends;
    EXPECT_EQ(group.run([&](int32_t r) {
      group.collectives(r).all_reduce(group.stream(r), view_of(data[static_cast<size_t>(r)].data(), {rows, width}),
                                      kLayer2);
    }),
              nobody(ranks));
    for (const auto& of_rank : data)
      for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_EQ(of_rank[i], sum_at(addends, i));
  }
}

TEST_P(CollectivesTest, AllReduceOfBf16AddsInF32AndRoundsOnce) {
  const int32_t ranks = GetParam();
  GroupUnderTest group(spec_of(ranks));
  Random random(5);
  constexpr int64_t kCount = 37;
  std::vector<std::vector<Bf16>> data;
  Values addends;
  for (int32_t r = 0; r < ranks; ++r) {
    data.emplace_back();
    addends.emplace_back();
    for (const float value : random.values(kCount)) {
      data.back().push_back(to_bf16(value));
      addends.back().push_back(to_float(to_bf16(value)));
    }
  }
  EXPECT_EQ(group.run([&](int32_t r) {
    group.collectives(r).all_reduce(group.stream(r), view_of(data[static_cast<size_t>(r)].data(), {1, kCount}),
                                    kLayer2);
  }),
            nobody(ranks));
  for (const auto& of_rank : data)
    for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_EQ(of_rank[i].bits, to_bf16(sum_at(addends, i)).bits);
}

TEST_P(CollectivesTest, AllToAllBringsEachRankItsRows) {
  const int32_t ranks = GetParam();
  GroupUnderTest group(spec_of(ranks));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t width = random.integer(1, 7);
    std::vector<std::vector<int64_t>> send;  // [from][to]
    for (int32_t r = 0; r < ranks; ++r) send.push_back(random.counts(ranks));
    std::vector<std::vector<int64_t>> receive(static_cast<size_t>(ranks));  // [to][from]
    Values in;
    Values expected(static_cast<size_t>(ranks));
    for (const auto& counts : send) in.push_back(random.values(sum_of(counts) * width));
    for (int32_t to = 0; to < ranks; ++to) {
      for (int32_t from = 0; from < ranks; ++from) {
        const auto& counts = send[static_cast<size_t>(from)];
        const auto first = in[static_cast<size_t>(from)].begin() + before(counts, to) * width;
        receive[static_cast<size_t>(to)].push_back(counts[static_cast<size_t>(to)]);
        expected[static_cast<size_t>(to)].insert(expected[static_cast<size_t>(to)].end(), first,
                                                 first + counts[static_cast<size_t>(to)] * width);
      }
    }
    Values out;
    for (const auto& values : expected) out.emplace_back(values.size(), -1.0F);
    EXPECT_EQ(group.run([&](int32_t r) {
      const auto own = static_cast<size_t>(r);
      group.collectives(r).all_to_all(group.stream(r),
                                      {.in = view_of(in[own].data(), {sum_of(send[own]), width}),
                                       .send_rows = send[own],
                                       .out = view_of(out[own].data(), {sum_of(receive[own]), width}),
                                       .receive_rows = receive[own]},
                                      kLayer2);
    }),
              nobody(ranks));
    EXPECT_EQ(out, expected);
  }
}

TEST_P(CollectivesTest, SendsMeetReceivesInOrder) {
  const int32_t ranks = GetParam();
  GroupUnderTest group(spec_of(ranks));
  constexpr int64_t kMessages = 5;
  Values data(static_cast<size_t>(ranks), std::vector<float>(kMessages, -1.0F));
  for (size_t i = 0; i < kMessages; ++i) data[0][i] = static_cast<float>(i);
  EXPECT_EQ(group.run([&](int32_t r) {
    for (int64_t i = 0; i < kMessages; ++i) {
      const TensorView view = view_of(data[static_cast<size_t>(r)].data() + i, {1, 1});
      if (r > 0) group.collectives(r).receive(group.stream(r), view, r - 1, kLayer2);
      if (r + 1 < ranks) group.collectives(r).send(group.stream(r), view, r + 1, kLayer2);
    }
  }),
            nobody(ranks));
  for (const auto& of_rank : data) EXPECT_EQ(of_rank, data[0]);
  const TrafficCount count =
      group.collectives(0).traffic().count(2, CollectiveKind::kSendReceive, TrafficUse::kActivations);
  EXPECT_EQ(count.bytes.sent, ranks > 1 ? kMessages * sizeof(float) : 0);
  EXPECT_EQ(count.bytes.received, 0U);
}

TEST_P(CollectivesTest, CountWhatARingMoves) {
  const int32_t ranks = GetParam();
  GroupUnderTest group(spec_of(ranks));
  constexpr int64_t kRows = 3, kWidth = 5;  // of each rank
  const std::vector<int64_t> rows(static_cast<size_t>(ranks), kRows);
  const int64_t total = kRows * ranks;
  Values data(static_cast<size_t>(ranks), std::vector<float>(static_cast<size_t>(total * kWidth), 1.0F));
  Values other = data;
  EXPECT_EQ(group.run([&](int32_t r) {
    const auto own = static_cast<size_t>(r);
    const TensorView view = view_of(data[own].data(), {total, kWidth});
    group.collectives(r).all_gather(group.stream(r), {view, rows}, kLayer2);
    group.collectives(r).reduce_scatter(group.stream(r), {view, rows}, kLayer2);
    group.collectives(r).all_reduce(group.stream(r), view, kLayer2);
    group.collectives(r).all_to_all(
        group.stream(r),
        {.in = view, .send_rows = rows, .out = view_of(other[own].data(), {total, kWidth}), .receive_rows = rows},
        kLayer2);
  }),
            nobody(ranks));
  // (P - 1) / P of the whole, in each direction.
  const auto share = static_cast<uint64_t>((ranks - 1) * kRows * kWidth) * sizeof(float);
  for (int32_t r = 0; r < ranks; ++r) {
    const TrafficLog& log = group.collectives(r).traffic();
    const auto bytes = [&](CollectiveKind kind) { return log.count(2, kind, TrafficUse::kActivations).bytes; };
    EXPECT_EQ(bytes(CollectiveKind::kAllGather), (TrafficBytes{share, share}));
    EXPECT_EQ(bytes(CollectiveKind::kReduceScatter), (TrafficBytes{share, share}));
    EXPECT_EQ(bytes(CollectiveKind::kAllReduce), (TrafficBytes{2 * share, 2 * share}));
    EXPECT_EQ(bytes(CollectiveKind::kAllToAll), (TrafficBytes{share, share}));
    EXPECT_EQ(log.total(TrafficUse::kActivations).bytes, (TrafficBytes{5 * share, 5 * share}));
    EXPECT_EQ(log.total(TrafficUse::kControl).calls, 0);
    EXPECT_EQ(log.count(1, CollectiveKind::kAllGather, TrafficUse::kActivations).calls, 0);
  }
}

// One rank never comes: the others would wait for ever.
TEST_P(CollectivesTest, AFailingRankWakesTheOthersWithItsCause) {
  const int32_t ranks = GetParam();
  if (ranks == 1) return;
  for (int32_t kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(kind);
    GroupUnderTest group(spec_of(ranks));
    const std::vector<int64_t> rows(static_cast<size_t>(ranks), 1);
    Values data(static_cast<size_t>(ranks), std::vector<float>(static_cast<size_t>(ranks), 1.0F));
    Values other = data;
    const int32_t failing = ranks - 1;
    const auto thrown = group.run([&](int32_t r) {
      Collectives& own = group.collectives(r);
      Stream& stream = group.stream(r);
      const TensorView view = view_of(data[static_cast<size_t>(r)].data(), {ranks, 1});
      if (r == failing) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        own.abort(std::make_exception_ptr(Error(ErrorCode::kDevice, "the card fell off")));
        return;
      }
      switch (kind) {
        case 0: own.all_gather(stream, {view, rows}, kLayer2); break;
        case 1: own.reduce_scatter(stream, {view, rows}, kLayer2); break;
        case 2: own.all_reduce(stream, view, kLayer2); break;
        case 3:
          own.all_to_all(stream,
                         {.in = view,
                          .send_rows = rows,
                          .out = view_of(other[static_cast<size_t>(r)].data(), {ranks, 1}),
                          .receive_rows = rows},
                         kLayer2);
          break;
        default:
          if (r % 2 == 0) {
            own.send(stream, view, failing, kLayer2);
          } else {
            own.receive(stream, view, failing, kLayer2);
          }
      }
    });
    for (int32_t r = 0; r < failing; ++r)
      EXPECT_EQ(thrown[static_cast<size_t>(r)],
                "rank " + std::to_string(failing) + " of the group failed: the card fell off");
    // Whoever comes later fails as well.
    const auto later = group.run([&](int32_t r) {
      group.collectives(r).all_reduce(group.stream(r), view_of(data[static_cast<size_t>(r)].data(), {ranks, 1}),
                                      kLayer2);
    });
    EXPECT_THAT(later[static_cast<size_t>(failing)], ::testing::HasSubstr("the card fell off"));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, ::testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

TEST(Collectives, TakeAsLongAsTheirRingOnAPacedLink) {
  CollectivesSpec spec = spec_of(2);
  spec.pace = {.bytes_per_second = 1'000'000, .latency_ns = 1'000'000};
  GroupUnderTest group(spec);
  Values data(2, std::vector<float>(5000, 1.0F));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(group.run([&](int32_t r) {
    group.collectives(r).all_reduce(group.stream(r), view_of(data[static_cast<size_t>(r)].data(), {5000, 1}), kLayer2);
  }),
            nobody(2));
  // 2 * 1/2 of 20 kB at 1 MB/s, in 2 steps of 1 ms.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(22));
  EXPECT_GE(group.collectives(0).traffic().total(TrafficUse::kActivations).total_ns, 22'000'000);
}

TEST(Collectives, OfOtherDevicesAreRefusedByName) {
  test::expect_error([] { (void)make_collectives({.kind = DeviceKind::kCuda, .ranks = 2, .layers = 1, .pace = {}}); },
                     ErrorCode::kUnsupported, {"CUDA"});
  test::expect_error([] { (void)make_collectives(spec_of(0)); }, ErrorCode::kInvalidArgument, {"0 ranks"});
}

}  // namespace
}  // namespace zp
