// Paced operations give the same bits, no earlier than modelled.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "zp/base/clock.h"
#include "zp/device/factory.h"
#include "zp/ops/factory.h"

namespace zp {
namespace {

TEST(PacedOps, GiveTheSameBitsNoEarlierThanModelled) {
  const auto device = make_device({.kind = DeviceKind::kCpu, .threads = 1});
  const OpsSpec plain_spec{.activation = DType::kF32, .reference = true, .paced_flops_per_second = 0, .limits = {}};
  OpsSpec paced_spec = plain_spec;
  paced_spec.paced_flops_per_second = 1e6;
  const auto plain = make_ops(*device, plain_spec);
  const auto paced = make_ops(*device, paced_spec);
  EXPECT_NE(paced->description().find("paced"), std::string_view::npos);
  EXPECT_EQ(paced->expert_blob_bytes({32, 16}), plain->expert_blob_bytes({32, 16}));

  const auto stream = device->create_stream("test");
  std::vector<float> x(4 * 50);
  std::vector<float> weight(50 * 50);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = std::cos(static_cast<float>(i));
  const ConstTensorView part = view_of(std::as_const(weight).data(), {50, 50});
  const SteadyClock clock;
  std::vector<std::vector<float>> results;
  double seconds = 0;
  for (Ops* ops : {plain.get(), paced.get()}) {
    const PackedMatrix packed = ops->pack_matrix(std::span(&part, 1));
    std::vector<float>& out = results.emplace_back(4 * 50);
    const int64_t begin_ns = clock.now_ns();
    ops->linear(*stream, {.x = view_of(x.data(), {4, 50}), .weight = &packed, .out = view_of(out.data(), {4, 50})});
    stream->synchronize();
    seconds = static_cast<double>(clock.now_ns() - begin_ns) * 1e-9;
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_GE(seconds, 0.02) << "2 * 4 * 50 * 50 FLOPs at 1 MFLOP/s";
}

TEST(PacedOps, OfOneDeviceShareItsRate) {
  const auto device = make_device({.kind = DeviceKind::kCpu, .threads = 1});
  const OpsSpec spec{.activation = DType::kF32, .reference = true, .paced_flops_per_second = 1e6, .limits = {}};
  const std::vector<float> weight(50 * 50, 1.0F);
  const ConstTensorView part = view_of(weight.data(), {50, 50});
  struct User {
    std::unique_ptr<Ops> ops;
    PackedMatrix packed;
    std::vector<float> x, out;
    std::unique_ptr<Stream> stream;
  };
  std::vector<User> users(2);
  for (User& user : users) {
    user.ops = make_ops(*device, spec);
    user.packed = user.ops->pack_matrix(std::span(&part, 1));
    user.x.assign(4 * 50, 1.0F);
    user.out.resize(4 * 50);
    user.stream = device->create_stream("test");
  }
  const SteadyClock clock;
  const int64_t begin_ns = clock.now_ns();
  for (User& user : users)
    user.ops->linear(
        *user.stream,
        {.x = view_of(user.x.data(), {4, 50}), .weight = &user.packed, .out = view_of(user.out.data(), {4, 50})});
  for (User& user : users) user.stream->synchronize();
  EXPECT_GE(static_cast<double>(clock.now_ns() - begin_ns) * 1e-9, 0.04) << "two of 20 ms each";
}

}  // namespace
}  // namespace zp
