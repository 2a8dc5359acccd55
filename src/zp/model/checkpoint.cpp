// Opens single and sharded checkpoints.
#include "zp/model/checkpoint.h"

#include <simdjson.h>

#include <set>

#include "zp/base/check.h"
#include "zp/base/error.h"
#include "zp/base/excerpt.h"

namespace zp {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

// Tensor name to shard name, as "weight_map" lists them.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const MappedFile file(path);
  simdjson::dom::parser parser;
  simdjson::dom::object map;
  const auto bytes = file.bytes();
  const simdjson::padded_string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto error = parser.parse(text)["weight_map"].get(map))
    fail(ErrorCode::kCorrupt, "{}: 'weight_map' cannot be read: {}", path.string(), simdjson::error_message(error));
  std::map<std::string, std::string> shards;
  for (const auto field : map) {
    std::string_view shard;
    if (field.value.get(shard))
      fail(ErrorCode::kCorrupt, "{}: tensor '{}' has no shard name", path.string(), field.key);
    // A name that leaves the folder would read files the user did not point at.
    if (shard.empty() || shard.find('/') != std::string_view::npos || shard == "..")
      fail(ErrorCode::kCorrupt, "{}: tensor '{}' lies in {}, which is no file of this folder", path.string(), field.key,
           quote_excerpt(shard));
    shards.emplace(field.key, shard);
  }
  return shards;
}

DType dtype_of(const StoredTensor& tensor, std::string_view name) {
  if (tensor.dtype == "F32") return DType::kF32;
  if (tensor.dtype == "BF16") return DType::kBf16;
  if (tensor.dtype == "F16") return DType::kF16;
  fail(ErrorCode::kUnsupported, "{}: tensor '{}' has type {}; supported are F32, BF16 and F16",
       tensor.file->path().string(), name, tensor.dtype);
}

// What `act` throws, with the tensor's name.
template <typename Act>
void naming(std::string_view name, Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    fail(error.code(), "tensor '{}': {}", name, error.what());
  }
}

Shape shape_of(const StoredTensor& tensor) {
  switch (tensor.shape.size()) {
    case 0: return {};
    case 1: return {tensor.shape[0]};
    case 2: return {tensor.shape[0], tensor.shape[1]};
    default: return {tensor.shape[0], tensor.shape[1], tensor.shape[2]};
  }
}

}  // namespace

Checkpoint::Checkpoint(std::filesystem::path folder) : folder_(std::move(folder)) {
  if (!std::filesystem::is_directory(folder_))
    fail(ErrorCode::kNotFound, "{} is no folder; a checkpoint is a folder with config.json and safetensors files",
         folder_.string());
  if (std::filesystem::exists(folder_ / kIndexFile)) {
    const std::map<std::string, std::string> index = read_index(folder_ / kIndexFile);
    std::map<std::string, const SafetensorsFile*> shards;
    for (const auto& [tensor, shard] : index) {
      const SafetensorsFile*& file = shards[shard];
      if (file == nullptr) file = files_.emplace_back(std::make_unique<SafetensorsFile>(folder_ / shard)).get();
      const auto found = file->tensors().find(tensor);
      if (found == file->tensors().end())
        fail(ErrorCode::kCorrupt, "{}: the index places tensor '{}' in {}, which lacks it", folder_.string(), tensor,
             shard);
      tensors_.emplace(tensor, &found->second);
    }
  } else if (std::filesystem::exists(folder_ / kSingleFile)) {
    files_.push_back(std::make_unique<SafetensorsFile>(folder_ / kSingleFile));
    for (const auto& [name, tensor] : files_.front()->tensors()) tensors_.emplace(name, &tensor);
  } else {
    fail(ErrorCode::kNotFound, "{} has neither {} nor {}", folder_.string(), kSingleFile, kIndexFile);
  }
}

size_t Checkpoint::total_bytes() const noexcept {
  size_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor->bytes.size();
  return total;
}

const StoredTensor& Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(ErrorCode::kNotFound, "{}: tensor '{}' is missing", folder_.string(), name);
  return *found->second;
}

void Checkpoint::fetch(std::string_view name) const {
  const StoredTensor& stored = find(name);
  naming(name, [&] { stored.file->fetch(stored.bytes); });
}

void Checkpoint::read(std::string_view name, uint64_t offset, std::span<std::byte> into) const {
  const StoredTensor& stored = find(name);
  const auto begin = static_cast<uint64_t>(stored.bytes.data() - stored.file->bytes().data());
  ZP_CHECK(offset <= stored.bytes.size() && into.size() <= stored.bytes.size() - offset,
           "{} bytes from {} of tensor '{}' are asked for, which has {}", into.size(), offset, name,
           stored.bytes.size());
  naming(name, [&] { stored.file->read(begin + offset, into); });
}

ConstTensorView Checkpoint::tensor(std::string_view name, const Shape& expected) const {
  const StoredTensor& stored = find(name);
  const DType dtype = dtype_of(stored, name);
  const Shape shape = shape_of(stored);
  if (stored.shape.size() > 3 || !(shape == expected))
    fail(ErrorCode::kCorrupt, "{}: tensor '{}' has shape {}; config.json asks for {}", folder_.string(), name,
         shape.to_string(), expected.to_string());
  return {stored.bytes.data(), dtype, shape};
}

void Checkpoint::discard(std::string_view name) const noexcept {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) found->second->file->discard(found->second->bytes);
}

}  // namespace zp
