// Checks of our own invariants. A failed check is a bug in this library: it prints both values and aborts.
// User input and the environment never reach a check; they throw zp::Error (error.h).
#pragma once

#include <fmt/format.h>

#include <string>

namespace zp::internal {

/// Prints file, line, the expression and the message to stderr, then aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& message);

}  // namespace zp::internal

/// Aborts with a formatted message unless `condition` holds; on in release builds too.
/// `ZP_CHECK(a == b, "rows {} != tokens {}", a, b)`.
#define ZP_CHECK(condition, ...)                                                                \
  do {                                                                                          \
    if (!(condition)) [[unlikely]]                                                              \
      ::zp::internal::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)

/// ZP_CHECK for measured hot loops: compiled out when NDEBUG is defined.
#ifdef NDEBUG
#define ZP_DCHECK(condition, ...) \
  do {                            \
  } while (false)
#else
#define ZP_DCHECK(condition, ...) ZP_CHECK(condition, __VA_ARGS__)
#endif
