// Which machines are refused, and what they are told.
#include "zp/device/cuda_requirements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace zp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CudaMachine h200() {
  return {.index = 0,
          .driver_version = 13010,
          .runtime_version = 13000,
          .gpus = 1,
          .refusal = {},
          .name = "NVIDIA H200",
          .compute_major = 9,
          .compute_minor = 0};
}

TEST(CudaRequirements, TakeAHopperGpu) { EXPECT_EQ(why_not_usable(h200()), ""); }

TEST(CudaRequirements, TakeADriverOfTheSameMajorVersion) {
  CudaMachine machine = h200();
  machine.driver_version = 13000;
  machine.runtime_version = 13020;
  EXPECT_EQ(why_not_usable(machine), "");
}

TEST(CudaRequirements, RefuseAMachineWithoutDriver) {
  CudaMachine machine = h200();
  machine.driver_version = 0;
  machine.gpus = 0;
  machine.refusal = "CUDA driver version is insufficient for CUDA runtime version";
  EXPECT_THAT(why_not_usable(machine), AllOf(HasSubstr("cuda:0"), HasSubstr("no NVIDIA driver"), HasSubstr("'cpu'")));
}

TEST(CudaRequirements, RefuseADriverThatIsTooOld) {
  CudaMachine machine = h200();
  machine.driver_version = 12080;
  machine.gpus = 0;
  machine.refusal = "CUDA driver version is insufficient for CUDA runtime version";
  EXPECT_THAT(why_not_usable(machine), AllOf(HasSubstr("12.8"), HasSubstr("13.0 or later")));
  // Also where CUDA itself does not mind.
  machine.gpus = 1;
  machine.refusal.clear();
  EXPECT_THAT(why_not_usable(machine), HasSubstr("12.8"));
}

TEST(CudaRequirements, RefuseAMachineWithoutGpu) {
  CudaMachine machine = h200();
  machine.gpus = 0;
  EXPECT_THAT(why_not_usable(machine), AllOf(HasSubstr("no NVIDIA GPU"), HasSubstr("'cpu'")));
}

TEST(CudaRequirements, PassOnAnyOtherReason) {
  CudaMachine machine = h200();
  machine.gpus = 0;
  machine.refusal = "system not yet initialized";
  EXPECT_THAT(why_not_usable(machine), HasSubstr("system not yet initialized"));
}

TEST(CudaRequirements, RefuseAnIndexThatIsNotThere) {
  for (const int32_t index : {-1, 1, 7}) {
    CudaMachine machine = h200();
    machine.index = index;
    EXPECT_THAT(why_not_usable(machine), AllOf(HasSubstr("cuda:" + std::to_string(index)), HasSubstr("1 GPU(s)")));
  }
}

TEST(CudaRequirements, RefuseEveryOtherArchitectureByName) {
  for (const auto& [major, minor] : {std::pair{8, 0}, std::pair{8, 9}, std::pair{9, 1}, std::pair{10, 0}}) {
    CudaMachine machine = h200();
    machine.name = "NVIDIA Other";
    machine.compute_major = major;
    machine.compute_minor = minor;
    EXPECT_THAT(why_not_usable(machine),
                AllOf(HasSubstr("NVIDIA Other"), HasSubstr(std::to_string(major) + "." + std::to_string(minor)),
                      HasSubstr("9.0 (Hopper)")));
  }
}

}  // namespace
}  // namespace zp
