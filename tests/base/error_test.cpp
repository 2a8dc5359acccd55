#include "zp/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace zp {
namespace {

TEST(Error, FailThrowsTheCodeAndTheFormattedMessage) {
  try {
    fail(ErrorCode::kNotFound, "tensor {} is missing, {} are there", "lm_head.weight", 7);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_STREQ(error.what(), "tensor lm_head.weight is missing, 7 are there");
    return;
  }
  FAIL() << "fail() returned";
}

TEST(Error, IsCaughtAsAStandardException) { EXPECT_THROW(fail(ErrorCode::kIo, "disk full"), std::runtime_error); }

TEST(Error, MessageMayHoldBracesFromUserInput) {
  const std::string user_input = "{not a format}";
  try {
    fail(ErrorCode::kInvalidArgument, "bad value {}", user_input);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "bad value {not a format}");
  }
}

TEST(ErrorCode, EveryCodeHasItsOwnLowerCaseName) {
  std::set<std::string_view> names;
  for (const ErrorCode code :
       {ErrorCode::kInvalidArgument, ErrorCode::kNotFound, ErrorCode::kIo, ErrorCode::kCorrupt, ErrorCode::kUnsupported,
        ErrorCode::kOutOfMemory, ErrorCode::kDevice, ErrorCode::kCancelled}) {
    const std::string_view name = to_string(code);
    EXPECT_THAT(std::string(name), testing::MatchesRegex("[a-z_]+"));
    EXPECT_NE(name, "unknown");
    EXPECT_TRUE(names.insert(name).second) << name << " names two codes";
  }
}

TEST(ErrorCode, ANumberThatIsNoCodeIsUnknown) { EXPECT_EQ(to_string(static_cast<ErrorCode>(1000)), "unknown"); }

}  // namespace
}  // namespace zp
