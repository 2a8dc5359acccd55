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
/// Upper and lower case are one, and so are a name with and without its organisation ("Qwen/Qwen3-30B-A3B"). Null if
/// there is no such model.
[[nodiscard]] const KnownModel* find_known_model(std::string_view name);
/// "DeepSeek-V3, GLM-4.5, ...".
[[nodiscard]] std::string known_model_names();

}  // namespace zp
