// Shapes of public models by name, so that a plan needs no checkpoint.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "zp/shape/model_shape.h"

namespace zp {

struct KnownModel {
  std::string_view name;    ///< "Qwen3-30B-A3B"
  std::string_view source;  ///< the model card whose config.json has the numbers
  /// What the shape carries only as numbers for planning; empty when the engine runs all of it.
  std::string_view planned_only;
  ModelShape shape;
};

/// In order of names. Immutable; thread-safe.
[[nodiscard]] std::span<const KnownModel> known_models();
/// By its name, or by that of a hub with the organisation ("Qwen/Qwen3-30B-A3B"); upper and lower case are one. Null if
/// there is no such model, and for all that can only be a path: "./Qwen3-30B-A3B", "Qwen3-30B-A3B/". Looks at no files.
[[nodiscard]] const KnownModel* find_known_model(std::string_view name);
/// The same where a folder may be named as well: null if NAME is one with a config.json, which goes first.
[[nodiscard]] const KnownModel* known_by_name(const std::string& name);
/// "DeepSeek-V3, GLM-4.5, ...".
[[nodiscard]] std::string known_model_names();

}  // namespace zp
