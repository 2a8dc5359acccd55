// Names of models.
#include "zp/schedule/measured_model.h"

#include <fmt/format.h>

#include <system_error>

#include "zp/base/excerpt.h"

namespace zp {

std::string model_name(const std::filesystem::path& folder) {
  std::error_code unknown;  // where the current folder is, if it was deleted
  std::filesystem::path whole = std::filesystem::absolute(folder, unknown);
  if (unknown) whole = folder;
  whole = whole.lexically_normal();
  // A path that ends with a slash has no file name.
  const std::string name = printable((whole.has_filename() ? whole : whole.parent_path()).filename().string());
  return name.empty() ? "/" : name;
}

std::string to_string(const MeasuredModel& model) { return fmt::format("{} in {}", model.name, model.dtype); }

std::string other_model_warning(std::string_view file, const MeasuredModel& measured, const MeasuredModel& asked) {
  if (measured == asked) return "";
  return fmt::format("warning: {} was measured with {}, but this is {}: rates of another model or type can be far off",
                     file, to_string(measured), to_string(asked));
}

}  // namespace zp
