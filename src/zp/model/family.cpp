// The registry of model families: a new one is a file in families/ and a line here.
#include "zp/model/family.h"

#include "zp/model/families/qwen3_moe.h"

namespace zp {
namespace {

constexpr const Family& (*kFamilies[])() = {&qwen3_moe_family};

}  // namespace

const Family* find_family(std::string_view model_type) {
  for (const auto family : kFamilies)
    if (family().name() == model_type) return &family();
  return nullptr;
}

std::string family_names() {
  std::string names;
  for (const auto family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family().name());
  return names;
}

}  // namespace zp
