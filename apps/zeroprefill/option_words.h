// What the library says, in the words of the command line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zp::app {

/// A field of a configuration, as the library's messages name it, and the option that sets it.
struct FieldOption {
  std::string_view field;
  std::string_view option;
};

/// A message of the library with the fields that it names replaced by their options: "kv_cache_bytes" becomes
/// "--kv-cache". A field that is a plain word is replaced only where a problem begins with it, as in "slots is 1; ...".
/// Parts of paths stay, and so does what is quoted.
[[nodiscard]] std::string with_option_names(std::string_view message, std::span<const FieldOption> fields);

/// Whose memory experts live in.
struct ExpertMemory {
  int32_t ranks = 1;
  std::string_view option{};  ///< the option that bounds it; empty if there is none
};
/// Why experts live elsewhere than --experts asked for; empty if they do not. `asked` is a value of the option,
/// `actual` another one: where they live.
[[nodiscard]] std::string why_other_experts(std::string_view asked, std::string_view actual,
                                            const ExpertMemory& memory);

}  // namespace zp::app
