// A GPU that fails under an engine: every request hears of it, none hangs, and what was answered stays answered.
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <vector>

#include "tests/engine/cuda/illegal_access.h"
#include "zeroprefill/engine.h"
#include "zp/device/factory.h"

namespace zp {
namespace {

std::filesystem::path root() {
  const std::filesystem::path built_from = ZP_SOURCE_DIR;
  return std::filesystem::exists(built_from / "models") ? built_from : std::filesystem::current_path();
}

TEST(CudaFault, EveryRequestFailsWithTheCause) {
  try {
    (void)make_device({.kind = DeviceKind::kCuda});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
  EngineConfig config;
  config.model = root() / "models/demo-moe";
  config.device = "cuda";
  config.compute = ComputeType::kBf16;
  config.step_tokens = 256;
  const auto engine = Engine::create(config);
  std::mutex mutex;
  std::vector<Outcome> outcomes;
  const auto submit = [&](int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      Request request;
      request.context = std::vector<int32_t>(200, 100 + i % 50);
      request.candidates = {Candidate(7), Candidate(8)};
      (void)engine->submit(request, [&](uint64_t, Outcome outcome) {
        const std::lock_guard lock(mutex);
        outcomes.push_back(std::move(outcome));
      });
    }
  };
  submit(3);
  engine->drain();
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(std::holds_alternative<Answer>(outcome));
  ASSERT_EQ(outcomes.size(), 3U);

  constexpr int32_t kPending = 400;
  submit(kPending);
  test::write_to_an_illegal_address();
  submit(kPending);
  engine->drain();
  ASSERT_EQ(outcomes.size(), 3U + 2 * kPending);
  int64_t failed = 0;
  for (const Outcome& outcome : outcomes) {
    const auto* failure = std::get_if<Failure>(&outcome);
    if (failure == nullptr) continue;
    ++failed;
    EXPECT_EQ(to_string(failure->code), to_string(ErrorCode::kDevice));
    EXPECT_NE(failure->message.find("illegal memory access"), std::string::npos) << failure->message;
    EXPECT_NE(failure->message.find("cuda:0"), std::string::npos) << failure->message;
  }
  EXPECT_GE(failed, kPending);  // at the least those that came after it
  EXPECT_EQ(engine->stats().failed, failed);
}

}  // namespace
}  // namespace zp
