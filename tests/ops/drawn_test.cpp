// Drawn weights: the generator's published values, the same bits from every implementation, and how they are spread.
#include "zp/ops/drawn.h"

#include "tests/ops/harness.h"
#include "zp/ops/drawn_host.h"

namespace zp::test {
namespace {

class Drawn : public OpsTest {};
ZP_FOR_ALL_IMPLEMENTATIONS(Drawn);

constexpr DrawnMatrix kOdd{.key = 77, .unit = drawn_unit(0.02), .rows = 37, .columns = 53, .row = 5, .column = 3};

HostTensor drawn(const Implementation& implementation, const DrawnMatrix& matrix, DType dtype) {
  Harness harness(implementation);
  HostTensor out(dtype, {matrix.rows, matrix.columns});
  harness.ops().draw(harness.stream(), {.matrix = matrix, .out = out.view()});
  harness.finish();
  return out;
}

DrawnExpert odd_expert() {
  const float unit = drawn_unit(0.5);
  return {.gate = {.key = 1, .unit = unit, .rows = 40, .columns = 72, .row = 8, .column = 0},
          .up = {.key = 2, .unit = unit, .rows = 40, .columns = 72, .row = 8, .column = 0},
          .down = {.key = 3, .unit = unit, .rows = 72, .columns = 40, .row = 0, .column = 8}};
}

// Known answers of the authors' library: https://github.com/DEShawResearch/random123, tests/kat_vectors.
TEST(Philox, GivesThePublishedValues) {
  const auto words = [](const PhiloxWords& w) { return std::vector<uint32_t>(w.word, w.word + 4); };
  EXPECT_EQ(words(philox4x32({{0, 0, 0, 0}}, 0)),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(philox4x32({{~0U, ~0U, ~0U, ~0U}}, ~uint64_t{0})),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822)),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_P(Drawn, HasTheReferencesBits) {
  for (const DType dtype : {GetParam().activation, DType::kF32}) {
    const HostTensor made = drawn(GetParam(), kOdd, dtype);
    EXPECT_TRUE(same_bytes(made.bytes(), drawn(reference_for(GetParam()), kOdd, dtype).bytes()));
    // An f32 model is the bf16 one.
    for (int64_t i = 0; i < made.elements(); ++i) ASSERT_EQ(made.at(i), to_float(to_bf16(made.at(i))));
  }
}

TEST_P(Drawn, APartHasTheElementsOfTheWhole) {
  const DrawnMatrix whole{.key = 77, .unit = kOdd.unit, .rows = 60, .columns = 64, .row = 0, .column = 0};
  const HostTensor all = drawn(GetParam(), whole, DType::kF32);
  const HostTensor part = drawn(GetParam(), kOdd, DType::kF32);
  for (int64_t r = 0; r < kOdd.rows; ++r)
    for (int64_t c = 0; c < kOdd.columns; ++c)
      ASSERT_EQ(part.at(r * kOdd.columns + c), all.at((kOdd.row + r) * whole.columns + kOdd.column + c));
}

TEST_P(Drawn, MatricesAreThoseThatPackingMakes) {
  Harness harness(GetParam());
  const std::vector<DrawnMatrix> parts = {kOdd, {.key = 5, .unit = 1, .rows = 2, .columns = kOdd.columns}};
  std::vector<HostTensor> elements;
  std::vector<ConstTensorView> views;
  for (const DrawnMatrix& part : parts) elements.push_back(drawn(GetParam(), part, DType::kF32));
  for (const HostTensor& tensor : elements) views.push_back(tensor.view());
  const PackedMatrix packed = harness.ops().pack_matrix(views);
  const PackedMatrix made = harness.ops().draw_matrix(parts);
  EXPECT_EQ(made.n, kOdd.rows + 2);
  EXPECT_EQ(made.k, kOdd.columns);
  EXPECT_TRUE(same_bytes(made.buffer.bytes(), packed.buffer.bytes()));
}

TEST_P(Drawn, ExpertsAreThoseThatPackingMakes) {
  Harness harness(GetParam());
  const DrawnExpert expert = odd_expert();
  const HostTensor gate = drawn(GetParam(), expert.gate, DType::kF32);
  const HostTensor up = drawn(GetParam(), expert.up, DType::kF32);
  const HostTensor down = drawn(GetParam(), expert.down, DType::kF32);
  const size_t size_bytes = harness.ops().expert_blob_bytes({.hidden = 72, .intermediate = 40});
  const Buffer packed = harness.device().allocate(size_bytes);
  const Buffer made = harness.device().allocate(size_bytes);
  harness.ops().pack_expert(gate.view(), up.view(), down.view(), packed.bytes());
  harness.ops().draw_expert(harness.stream(), expert, made.data());
  harness.finish();
  EXPECT_TRUE(same_bytes(made.bytes(), packed.bytes()));
}

// Of n independent values with mean 0 and deviation s, the mean deviates by s / sqrt(n); the mean square by less than
// sqrt(2 / n) of itself, since sums of four uniform values have lighter tails than normal ones. Bounds are six of
// these.
TEST_P(Drawn, ValuesHaveTheDeviationAskedFor) {
  const DrawnMatrix matrix{.key = 9, .unit = drawn_unit(0.02), .rows = 256, .columns = 1024};
  const HostTensor made = drawn(GetParam(), matrix, DType::kF32);
  const auto n = static_cast<double>(made.elements());
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < made.elements(); ++i) {
    sum += made.d(i);
    squares += made.d(i) * made.d(i);
  }
  EXPECT_NEAR(sum / n, 0, 6 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(squares / n / (0.02 * 0.02), 1, 6 * std::sqrt(2 / n));
}

TEST_P(Drawn, OtherKeysAndPlacesAreOtherValues) {
  DrawnMatrix other = kOdd;
  other.key = 78;
  DrawnMatrix shifted = kOdd;
  shifted.row = 6;
  const HostTensor made = drawn(GetParam(), kOdd, DType::kF32);
  EXPECT_FALSE(same_bytes(made.bytes(), drawn(GetParam(), other, DType::kF32).bytes()));
  EXPECT_FALSE(same_bytes(made.row_bytes(0), drawn(GetParam(), shifted, DType::kF32).row_bytes(0)));
}

}  // namespace
}  // namespace zp::test
