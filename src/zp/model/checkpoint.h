// A Hugging Face checkpoint folder as it lies on disk: configuration and tensors, over one or many files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zp/model/safetensors.h"
#include "zp/shape/model_shape.h"
#include "zp/tensor/tensor_view.h"

namespace zp {

/// What config.json says of a model.
struct ModelConfig {
  ModelShape shape;
  std::string stored_dtype;  ///< torch_dtype / dtype as written ("bfloat16"), or empty
};

/// Reads config.json of a known family. Throws kNotFound, kCorrupt (not JSON, wrong types, contradictions) or
/// kUnsupported (an unknown family, or an option that changes the result and is not implemented), naming the key.
[[nodiscard]] ModelConfig read_model_config(const std::filesystem::path& folder);

/// The tensors of a folder, mapped. Immutable, thread-safe.
class Checkpoint final {
 public:
  /// Opens model.safetensors, or all shards of model.safetensors.index.json. Throws as SafetensorsFile does, and
  /// kCorrupt for a tensor that the index places in a shard that lacks it.
  explicit Checkpoint(std::filesystem::path folder);

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] size_t tensor_count() const noexcept { return tensors_.size(); }
  [[nodiscard]] size_t file_count() const noexcept { return files_.size(); }
  [[nodiscard]] size_t total_bytes() const noexcept;

  /// The tensor `name` as a view into the mapped file. Throws kNotFound, kCorrupt when the shape differs from
  /// `expected`, kUnsupported for an element type other than f32, bf16 and f16.
  [[nodiscard]] ConstTensorView tensor(std::string_view name, const Shape& expected) const;
  /// Brings a tensor's bytes into memory at once. Throws kIo or kCorrupt, naming file and tensor.
  void fetch(std::string_view name) const;
  /// Copies bytes [offset, offset + size of `into`) of a tensor. Throws as fetch() does. Touches no mapped page.
  void read(std::string_view name, uint64_t offset, std::span<std::byte> into) const;
  /// Lets the pages of `name` leave memory once its weights are packed.
  void discard(std::string_view name) const noexcept;

 private:
  [[nodiscard]] const StoredTensor& find(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const StoredTensor*, std::less<>> tensors_;
};

}  // namespace zp
