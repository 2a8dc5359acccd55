// Reads and checks safetensors headers.
#include "zp/model/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"

namespace zp {
namespace {

// The format's own limit on headers (its reference implementation refuses larger ones).
constexpr uint64_t kHeaderBytesMax = 100'000'000;
constexpr size_t kPrefixBytes = 8;

std::optional<uint64_t> element_bytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, uint64_t> kSizes[] = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},  {"U32", 4},     {"BF16", 2},    {"F16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto& [name, size] : kSizes)
    if (name == dtype) return size;
  return std::nullopt;
}

// Where a header cannot be understood, and why.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, const MappedFile& file, std::span<const std::byte> data)
      : path_(path), file_(file), data_(data) {}

  StoredTensor read(std::string_view name, simdjson::dom::element entry) const {
    StoredTensor tensor;
    tensor.file = &file_;
    std::string_view dtype;
    simdjson::dom::array shape;
    simdjson::dom::array offsets;
    if (entry["dtype"].get(dtype) || entry["shape"].get(shape) || entry["data_offsets"].get(offsets))
      corrupt(name, "dtype, shape or data_offsets is missing or of the wrong type");
    tensor.dtype = dtype;
    const std::optional<uint64_t> size = element_bytes(dtype);
    if (!size) corrupt(name, fmt::format("its dtype {} is unknown", quote_excerpt(dtype)));
    uint64_t bytes = *size;
    for (const simdjson::dom::element dim : shape) {
      uint64_t extent = 0;
      if (dim.get(extent) || extent > static_cast<uint64_t>(INT64_MAX)) corrupt(name, "a dimension is no count");
      if (__builtin_mul_overflow(bytes, extent, &bytes)) corrupt(name, "its size overflows 64 bits");
      tensor.shape.push_back(static_cast<int64_t>(extent));
    }
    uint64_t begin = 0;
    uint64_t end = 0;
    if (offsets.size() != 2 || offsets.at(0).get(begin) || offsets.at(1).get(end))
      corrupt(name, "data_offsets is not a pair of counts");
    if (begin > end || end > data_.size())
      corrupt(name, fmt::format("its bytes [{}, {}) lie outside the file's {} data bytes (truncated?)", begin, end,
                                data_.size()));
    if (end - begin != bytes)
      corrupt(name, fmt::format("it has {} bytes, but its shape and dtype need {}", end - begin, bytes));
    tensor.bytes = data_.subspan(begin, bytes);
    return tensor;
  }

  [[noreturn]] void corrupt(std::string_view name, std::string_view reason) const {
    fail(ErrorCode::kCorrupt, "{}: tensor '{}': {}", path_.string(), name, reason);
  }

 private:
  const std::filesystem::path& path_;
  const MappedFile& file_;
  std::span<const std::byte> data_;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(std::make_unique<MappedFile>(path)) {
  parse(path);
}

void SafetensorsFile::parse(const std::filesystem::path& path) {
  const std::span<const std::byte> all = file_->bytes();
  if (all.size() < kPrefixBytes)
    fail(ErrorCode::kCorrupt, "{}: {} bytes are too few for a safetensors file", path.string(), all.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, all.data(), kPrefixBytes);
  if (header_bytes > kHeaderBytesMax || header_bytes > all.size() - kPrefixBytes)
    fail(ErrorCode::kCorrupt, "{}: its header is said to have {} bytes; the file has {} (limit {})", path.string(),
         header_bytes, all.size(), kHeaderBytesMax);

  simdjson::dom::parser parser;
  simdjson::dom::object header;
  const auto* text = reinterpret_cast<const char*>(all.data()) + kPrefixBytes;
  if (const auto error = parser.parse(text, header_bytes).get(header))
    fail(ErrorCode::kCorrupt, "{}: its header is no JSON object: {}", path.string(), simdjson::error_message(error));

  const HeaderReader reader(path, *file_, all.subspan(kPrefixBytes + header_bytes));
  for (const auto field : header) {
    if (field.key == "__metadata__") continue;
    if (!tensors_.emplace(std::string(field.key), reader.read(field.key, field.value)).second)
      reader.corrupt(field.key, "it is listed twice");
  }

  std::vector<const std::pair<const std::string, StoredTensor>*> by_place;
  for (const auto& entry : tensors_)
    if (!entry.second.bytes.empty()) by_place.push_back(&entry);
  std::ranges::sort(by_place, {}, [](const auto* entry) { return entry->second.bytes.data(); });
  for (size_t i = 1; i < by_place.size(); ++i) {
    const auto& before = by_place[i - 1]->second.bytes;
    if (before.data() + before.size() > by_place[i]->second.bytes.data())
      reader.corrupt(by_place[i]->first, fmt::format("it overlaps tensor '{}'", by_place[i - 1]->first));
  }
}

}  // namespace zp
