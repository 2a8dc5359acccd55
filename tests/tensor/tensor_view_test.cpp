// Shapes and views.
#include "zp/tensor/tensor_view.h"

#include <gtest/gtest.h>

#include <array>

#include "zp/device/cpu/cpu_device.h"
#include "zp/tensor/tensor.h"

namespace zp {
namespace {

TEST(Shape, CountsElementsAndCompares) {
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24);
  EXPECT_EQ((Shape{2, 0}).elements(), 0);
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_EQ((Shape{128, 64}).to_string(), "[128, 64]");
}

TEST(ShapeDeathTest, HasAtMostFourDimensions) { EXPECT_DEATH((Shape{1, 2, 3, 4, 5}), "at most 4 dimensions, got 5"); }

TEST(TensorView, RowsPointIntoTheTensor) {
  std::array<float, 24> values{};
  const TensorView view = view_of(values.data(), {4, 3, 2});
  const TensorView rows = view.rows(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(rows.as<float>(), values.data() + 6);
  EXPECT_EQ(view.rows(4, 0).elements(), 0);
  EXPECT_EQ(view_of(values.data(), {24}).rows(5, 3).as<float>(), values.data() + 5);
  EXPECT_EQ(view_of(values.data(), {2, 1, 3, 4}).rows(1, 1).as<float>(), values.data() + 12);
  EXPECT_EQ(view.size_bytes(), 96u);
}

TEST(TensorViewDeathTest, RefusesRowsThatAreNotThere) {
  std::array<float, 6> values{};
  const TensorView view = view_of(values.data(), {3, 2});
  EXPECT_DEATH((void)view.rows(2, 2), "rows .2, 4. of a tensor of shape .3, 2.");
  EXPECT_DEATH((void)view.rows(-1, 1), "rows");
}

TEST(TensorViewDeathTest, RefusesToBeReadAsAnotherType) {
  std::array<float, 6> values{};
  EXPECT_DEATH((void)view_of(values.data(), {6}).as<int32_t>(), "a f32 tensor is read as i32");
}

TEST(TensorView, MutableReadsAsConstant) {
  std::array<int32_t, 2> values{1, 2};
  const ConstTensorView view = view_of(values.data(), {2});
  EXPECT_EQ(view.as<int32_t>()[1], 2);
  EXPECT_FALSE(view.empty());
  EXPECT_TRUE(ConstTensorView().empty());
}

TEST(Tensor, OwnsAlignedMemoryOfItsSize) {
  cpu::CpuDevice device(0, 1);
  const Tensor tensor(device, DType::kBf16, {3, 5});
  EXPECT_EQ(tensor.size_bytes(), 30u);
  EXPECT_EQ(tensor.shape(), (Shape{3, 5}));
  EXPECT_EQ(tensor.view().dtype(), DType::kBf16);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.view().data()) % 256, 0u);
  EXPECT_TRUE(Tensor(device, DType::kF32, {0, 5}).view().empty());
}

}  // namespace
}  // namespace zp
