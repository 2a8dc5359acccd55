// Hardware profiles by name: those that are shipped (data/hardware.yaml), and those of a user's own file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "zp/shape/hardware_profile.h"

namespace zp {

/// Reads profiles from the text of a file; `name` is what messages call it. Throws kInvalidArgument with every problem
/// and its line.
[[nodiscard]] std::vector<HardwareProfile> parse_hardware(std::string_view text, std::string_view name);

/// The text of data/hardware.yaml, as it was when the program was built.
[[nodiscard]] std::string_view shipped_hardware_text() noexcept;

/// The profile of this name, in any case: of `file`, unless that is empty, and else of those that are shipped. Throws
/// kNotFound with the names there are, and whatever is wrong with the file.
[[nodiscard]] HardwareProfile find_hardware(std::string_view name, const std::filesystem::path& file = {});

}  // namespace zp
