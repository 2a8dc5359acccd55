// What differs between model families: how config.json reads, and what the tensors are called.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "zp/model/config_reader.h"
#include "zp/shape/model_shape.h"

namespace zp {

/// One family. Tensor names are whole ("model.layers.3.self_attn.q_proj.weight"). Stateless and thread-safe.
class Family {
 public:
  virtual ~Family() = default;

  /// The model_type of config.json.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Throws kCorrupt or kUnsupported, naming the key.
  [[nodiscard]] virtual ModelShape read_shape(const ConfigReader& config) const = 0;

  /// Tensor names. `part` is the projection: "q_proj", "gate_proj", ...
  [[nodiscard]] virtual std::string embedding() const = 0;
  [[nodiscard]] virtual std::string final_norm() const = 0;
  [[nodiscard]] virtual std::string head() const = 0;
  [[nodiscard]] virtual std::string input_norm(int32_t layer) const = 0;
  [[nodiscard]] virtual std::string post_attention_norm(int32_t layer) const = 0;
  [[nodiscard]] virtual std::string attention(int32_t layer, std::string_view part) const = 0;
  [[nodiscard]] virtual std::string router(int32_t layer) const = 0;
  [[nodiscard]] virtual std::string expert(int32_t layer, int32_t expert, std::string_view part) const = 0;
  [[nodiscard]] virtual std::string dense(int32_t layer, std::string_view part) const = 0;
};

/// The family of a model_type, or null. Families live as long as the program.
[[nodiscard]] const Family* find_family(std::string_view model_type);

/// All supported model types, for messages: "qwen3_moe".
[[nodiscard]] std::string family_names();

}  // namespace zp
