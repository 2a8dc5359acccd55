// Opens what EngineConfig::model names: a checkpoint, or a model of random weights.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "zeroprefill/engine.h"
#include "zp/model/weight_source.h"

namespace zp {

/// Whether the weights are drawn, not read.
[[nodiscard]] bool is_random(const EngineConfig& config);
/// Throws what ModelFiles and RandomModel throw.
[[nodiscard]] std::unique_ptr<WeightSource> open_source(const EngineConfig& config);
/// Where the tokenizer is looked for: the folder given, or the model's own. Empty for a random model that has none.
[[nodiscard]] std::filesystem::path tokenizer_folder(const EngineConfig& config);
/// What the model is called (MeasuredModel::name), whether its weights are drawn or not.
[[nodiscard]] std::string model_name(const EngineConfig& config);
/// Tells what is computed from any other model's.
[[nodiscard]] std::string model_revision(const EngineConfig& config);

}  // namespace zp
