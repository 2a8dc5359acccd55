// Asserts which zp::Error an expression throws.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "zp/base/error.h"

namespace zp::test {

struct Thrown {
  ErrorCode code;
  std::string message;
};

/// What `action` throws, if it throws a zp::Error.
template <typename Action>
std::optional<Thrown> thrown_by(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return Thrown{error.code(), error.what()};
  }
  return std::nullopt;
}

/// Expects an Error with this code whose message holds all the parts.
template <typename Action>
void expect_error(Action&& action, ErrorCode code, std::initializer_list<std::string_view> parts) {
  const std::optional<Thrown> thrown = thrown_by(action);
  ASSERT_TRUE(thrown.has_value()) << "nothing was thrown";
  EXPECT_EQ(to_string(thrown->code), to_string(code)) << thrown->message;
  for (const std::string_view part : parts) EXPECT_THAT(thrown->message, ::testing::HasSubstr(std::string(part)));
}

}  // namespace zp::test
