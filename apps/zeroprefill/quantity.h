// Quantities with units on the command line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace zp::app {

using Units = std::map<std::string, double>;

/// A number with one of the units; nothing for an empty text. `kind` says what is wanted, with examples. Throws
/// kInvalidArgument, naming the option.
[[nodiscard]] std::optional<double> parse_quantity(const std::string& option, const std::string& text,
                                                   const Units& units, const char* kind);

/// "2GiB", "512MiB", "0" or plain bytes.
[[nodiscard]] std::optional<uint64_t> parse_bytes(const std::string& option, const std::string& text);

}  // namespace zp::app
