// What an engine measured of its ranks, as a file: `run --save-calibration` writes it, `run --calibration` and
// `simulate --calibration` read it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "zp/schedule/load_controller.h"

namespace zp {

struct CalibrationFile {
  std::string operations;  ///< what computed: rates of one kind of operations say nothing of another's
  MeasuredRank measured;
};

/// JSON, with every digit.
[[nodiscard]] std::string format_calibration(const CalibrationFile& calibration);
/// Throws kCorrupt naming `name`, the field, its value and the limit.
[[nodiscard]] CalibrationFile parse_calibration(std::string_view text, std::string_view name);
/// Throws what MappedFile throws besides.
[[nodiscard]] CalibrationFile read_calibration(const std::filesystem::path& path);

}  // namespace zp
