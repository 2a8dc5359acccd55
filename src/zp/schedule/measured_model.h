// What rates were measured with: a model, and the type it was computed in.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace zp {

/// Rates are per FLOP, so a model that is cut to its first layers has those of the whole.
struct MeasuredModel {
  std::string name;   ///< of a known model as KnownModel::name has it, of a folder as model_name()
  std::string dtype;  ///< "bf16"

  friend bool operator==(const MeasuredModel&, const MeasuredModel&) = default;
};

/// What the model of a folder is called in files and messages: the last part of the path, as it is, though known models
/// may be spelled otherwise. Valid UTF-8, printable(), whatever the path. Throws nothing of the file
/// system.
[[nodiscard]] std::string model_name(const std::filesystem::path& folder);
/// "Qwen3-30B-A3B in bf16".
[[nodiscard]] std::string to_string(const MeasuredModel& model);
/// Warns that rates from `file`, measured with `measured`, are used for another model or type, `asked`; empty if they
/// are the same. Rates are per FLOP, so they can be used all the same.
[[nodiscard]] std::string other_model_warning(std::string_view file, const MeasuredModel& measured,
                                              const MeasuredModel& asked);

}  // namespace zp
