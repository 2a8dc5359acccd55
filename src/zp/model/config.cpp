// Reads config.json and hands it to the family it names.
#include <simdjson.h>

#include <string>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/mapped_file.h"
#include "zp/model/checkpoint.h"
#include "zp/model/config_reader.h"
#include "zp/model/family.h"

namespace zp {

ModelConfig read_model_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const simdjson::padded_string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(text).get(root); error || !root.is_object())
    fail(ErrorCode::kCorrupt, "{}: not a JSON object: {}", path.string(),
         error ? simdjson::error_message(error) : "its top level is something else");

  const ConfigReader reader(path, root);
  const std::string model_type = reader.text("model_type", "");
  const Family* family = find_family(model_type);
  if (family == nullptr)
    fail(ErrorCode::kUnsupported, "{}: model_type {} is not supported; supported: {}", path.string(),
         quote_excerpt(model_type), family_names());
  ModelConfig config;
  config.stored_dtype = reader.text("torch_dtype", reader.text("dtype", ""));
  config.shape = family->read_shape(reader);
  config.shape.family = model_type;
  const std::vector<std::string> problems = validate(config.shape);
  if (!problems.empty())
    fail(ErrorCode::kCorrupt, "{}: {}", path.string(), fmt::format("{}", fmt::join(problems, "; ")));
  return config;
}

}  // namespace zp
