// Options that take a whole number: the one way in which all commands read them.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace zp::app {

/// `text` as a number in [0, largest], in decimal digits. Throws CLI::ValidationError, naming option, value and limits.
[[nodiscard]] uint64_t parse_whole_number(const std::string& option, const std::string& text, uint64_t largest);

/// Adds `option`, which sets `value` to a whole number that T can hold, no less than 0. What else it must be is for
/// whoever uses the value to say.
template <std::integral T, typename Value>
CLI::Option* add_whole_number_of(CLI::App& command, const std::string& option, Value& value,
                                 const std::string& description) {
  const auto set = [option, &value](const std::string& text) {
    value = static_cast<T>(parse_whole_number(option, text, static_cast<uint64_t>(std::numeric_limits<T>::max())));
  };
  return command.add_option_function<std::string>(option, set, description)
      ->type_name(std::signed_integral<T> ? "INT" : "UINT");
}

/// The same; --help shows the value that there is without it.
template <std::integral T>
CLI::Option* add_whole_number(CLI::App& command, const std::string& option, T& value, const std::string& description) {
  return add_whole_number_of<T>(command, option, value, description)->default_str(fmt::format("{}", value));
}

/// The same, unset without it.
template <std::integral T>
CLI::Option* add_whole_number(CLI::App& command, const std::string& option, std::optional<T>& value,
                              const std::string& description) {
  return add_whole_number_of<T>(command, option, value, description);
}

}  // namespace zp::app
