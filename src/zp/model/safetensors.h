// Which tensors a safetensors file holds, and where their bytes lie.
// Format: https://huggingface.co/docs/safetensors: u64 header size (little endian), JSON header, data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zp/base/mapped_file.h"

namespace zp {

/// One tensor as it lies in the file. `dtype` is the format's own name ("BF16", "F8_E4M3"): not every one of them can
/// be computed with, which is for whoever reads the tensor to say.
struct StoredTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // in the mapped file
  const MappedFile* file = nullptr;
};

/// A mapped safetensors file whose header has been checked: every tensor lies inside the file, has the size that its
/// shape and type say, and overlaps no other. Immutable, thread-safe.
class SafetensorsFile final {
 public:
  /// Throws kNotFound, kIo or kCorrupt, naming the path, the tensor and what is wrong.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::map<std::string, StoredTensor, std::less<>>& tensors() const noexcept { return tensors_; }

 private:
  void parse(const std::filesystem::path& path);

  std::unique_ptr<MappedFile> file_;  // at a fixed address: the tensors point to it
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace zp
