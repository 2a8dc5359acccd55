// Opens models.
#include "zp/engine/source.h"

#include <algorithm>
#include <system_error>

#include "zp/base/error.h"
#include "zp/base/folder.h"
#include "zp/model/random_model.h"
#include "zp/model/weights.h"
#include "zp/schedule/measured_model.h"
#include "zp/shape/known_models.h"

namespace zp {
namespace {

// What follows "random:".
std::string random_name(const EngineConfig& config) { return config.model.string().substr(kRandomPrefix.size()); }

}  // namespace

bool is_random(const EngineConfig& config) { return config.model.string().starts_with(kRandomPrefix); }

std::unique_ptr<WeightSource> open_source(const EngineConfig& config) {
  if (!is_random(config)) return std::make_unique<ModelFiles>(config.model);
  ModelShape shape = random_model_shape(random_name(config), config.random.layers);
  // Nothing was learnt of positions, so any context is as good as another.
  shape.max_positions = static_cast<int32_t>(std::max<int64_t>(shape.max_positions, config.max_context_tokens));
  return std::make_unique<RandomModel>(
      std::move(shape), RandomModelSpec{.seed = config.random.seed, .expert_skew = config.random.expert_skew});
}

std::filesystem::path tokenizer_folder(const EngineConfig& config) {
  if (!config.tokenizer.empty()) return config.tokenizer;
  if (!is_random(config)) return config.model;
  const std::filesystem::path folder = random_name(config);
  return has_entry(folder, "tokenizer.json") ? folder : std::filesystem::path();
}

std::string model_name(const EngineConfig& config) {
  if (!is_random(config)) return model_name(config.model);
  const std::string name = random_name(config);
  const KnownModel* known = known_by_name(name);
  return known != nullptr ? std::string(known->name) : model_name(name);
}

std::string model_revision(const EngineConfig& config) {
  if (is_random(config))
    return fmt::format("{} {} {} {}", config.model.string(), config.random.layers, config.random.seed,
                       config.random.expert_skew);
  std::error_code unknown;  // where the current folder is, if it was deleted
  const std::filesystem::path whole = std::filesystem::absolute(config.model, unknown);
  return (unknown ? config.model : whole).lexically_normal().string();
}

}  // namespace zp
