// JSON to measured rates and back.
#include "zp/schedule/calibration_file.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/mapped_file.h"

namespace zp {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 20;
constexpr size_t kWordsBytesMax = 1024;  // a file name has at most 255
constexpr std::string_view kFormat = "zeroprefill-calibration-2";
// Did not say which model it was measured with.
constexpr std::string_view kNamelessFormat = "zeroprefill-calibration-1";

/// Reads one object's fields, naming what is wrong.
class FieldReader final {
 public:
  FieldReader(simdjson::dom::element root, std::string_view name) : root_(root), name_(name) {}

  double number(const char* key, double low, double high) const {
    double value = 0;
    if (root_[key].get(value)) fail(ErrorCode::kCorrupt, "{}: {} is missing or no number", name_, key);
    if (!(value >= low && value <= high))
      fail(ErrorCode::kCorrupt, "{}: {} is {}; it must lie in [{}, {}]", name_, key, value, low, high);
    return value;
  }
  /// 0 if there is no such link.
  double link(const char* key, double low, double high) const {
    const double value = number(key, 0, high);
    if (value != 0 && value < low)
      fail(ErrorCode::kCorrupt, "{}: {} is {}; it must be 0 or lie in [{}, {}]", name_, key, value, low, high);
    return value;
  }
  std::string text(const char* key) const {
    std::string_view value;
    if (root_[key].get(value)) fail(ErrorCode::kCorrupt, "{}: {} is missing or no string", name_, key);
    return std::string(value);
  }
  /// Of what is shown to people: something, and nothing that a terminal would act on.
  std::string words(const char* key) const {
    std::string value = text(key);
    if (value.empty()) fail(ErrorCode::kCorrupt, "{}: {} is empty", name_, key);
    if (printable(value) != value) fail(ErrorCode::kCorrupt, "{}: {} has control characters", name_, key);
    if (value.size() > kWordsBytesMax)
      fail(ErrorCode::kCorrupt, "{}: {} has {} bytes; it may have at most {}", name_, key, value.size(),
           kWordsBytesMax);
    return value;
  }

 private:
  simdjson::dom::element root_;
  std::string_view name_;
};

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + '"';
}

}  // namespace

std::string format_calibration(const CalibrationFile& calibration) {
  const MeasuredRank& m = calibration.measured;
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"operations\": {},\n  \"model\": {},\n  \"dtype\": {},\n"
      "  \"attention_flops_per_second\": {},\n  \"dense_flops_per_second\": {},\n  \"expert_flops_per_second\": {},\n"
      "  \"peer_bytes_per_second\": {},\n  \"host_bytes_per_second\": {},\n  \"step_seconds\": {}\n}}\n",
      kFormat, json_string(calibration.operations), json_string(calibration.model.name),
      json_string(calibration.model.dtype), m.rates.attention, m.rates.dense, m.rates.expert, m.links.peer,
      m.links.host, m.step_seconds);
}

CalibrationFile parse_calibration(std::string_view text, std::string_view name) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::padded_string padded(text);
  if (const auto error = parser.parse(padded).get(root); error || !root.is_object())
    fail(ErrorCode::kCorrupt, "{}: not a JSON object: {}", name,
         error ? simdjson::error_message(error) : "something else");
  const FieldReader read(root, name);
  const std::string format = read.text("format");
  if (format == kNamelessFormat)
    fail(ErrorCode::kCorrupt,
         "{}: format is '{}', of an older version, which does not say which model was measured; measure again with "
         "`run --save-calibration`",
         name, format);
  if (format != kFormat)
    fail(ErrorCode::kCorrupt, "{}: format is {}; it must be '{}'", name, quote_excerpt(format), kFormat);
  // Far beyond what any device does, either way: what is computed from such rates is still a number.
  constexpr double kRateMin = 1e3;
  constexpr double kRateMax = 1e18;
  constexpr double kLinkMin = 1;
  return {.operations = read.text("operations"),
          .model = {.name = read.words("model"), .dtype = read.words("dtype")},
          .measured = {.rates = {.attention = read.number("attention_flops_per_second", kRateMin, kRateMax),
                                 .dense = read.number("dense_flops_per_second", kRateMin, kRateMax),
                                 .expert = read.number("expert_flops_per_second", kRateMin, kRateMax)},
                       .links = {.peer = read.link("peer_bytes_per_second", kLinkMin, kRateMax),
                                 .host = read.link("host_bytes_per_second", kLinkMin, kRateMax)},
                       .step_seconds = read.number("step_seconds", 0, 3600)}};
}

CalibrationFile read_calibration(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > kFileBytesMax)
    fail(ErrorCode::kCorrupt, "{} has {} bytes; a calibration has at most {}", path.string(), bytes.size(),
         kFileBytesMax);
  return parse_calibration({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace zp
