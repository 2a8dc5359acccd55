// What an engine measured of its ranks, as a file: `run --save-calibration` writes it, `--calibration` of `run`, `plan`
// and `simulate` reads it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "zp/schedule/load_controller.h"
#include "zp/schedule/measured_model.h"

namespace zp {

struct CalibrationFile {
  std::string operations;  ///< what computed: rates of one kind of operations say nothing of another's
  MeasuredModel model;     ///< what was computed
  MeasuredRank measured;
};

/// JSON, with every digit.
[[nodiscard]] std::string format_calibration(const CalibrationFile& calibration);
/// Throws kCorrupt naming `name`, the field, its value and the limit.
[[nodiscard]] CalibrationFile parse_calibration(std::string_view text, std::string_view name);
/// Throws what MappedFile throws besides.
[[nodiscard]] CalibrationFile read_calibration(const std::filesystem::path& path);

}  // namespace zp
