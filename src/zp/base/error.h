// Errors of the environment and of user input: what went wrong, with which value, against which limit.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace zp {

/// What kind of failure an Error reports. Callers branch on it; messages are for people.
enum class ErrorCode {
  kInvalidArgument,  ///< A value the caller or user gave is wrong; the message names it and its limit.
  kNotFound,         ///< A file, tensor, column or name does not exist.
  kIo,               ///< Reading or writing failed (permissions, full disk, ...).
  kCorrupt,          ///< Data exists but does not hold together (truncated file, bad header, ...).
  kUnsupported,      ///< Well formed, but this build or machine cannot do it.
  kOutOfMemory,      ///< A plan or an allocation does not fit; the message has the numbers.
  kDevice,           ///< A device failed; everything that depended on it fails with this cause.
  kCancelled,        ///< The caller asked for it to stop, or the engine is shutting down.
};

/// The stable lower-case name of a code, as it appears in answers and logs ("invalid_argument").
[[nodiscard]] constexpr std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kDevice: return "device";
    case ErrorCode::kCancelled: return "cancelled";
  }
  return "unknown";
}

/// The one exception type of the library. `what()` is a whole sentence fit to be shown to a user.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Throws Error with a formatted message: `fail(ErrorCode::kIo, "cannot open {}: {}", path, reason)`.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace zp
