// YAML to profiles.
#include "zp/plan/hardware_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/mapped_file.h"

namespace zp {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 20;

/// Reads the mapping of one profile, collecting what is wrong.
class ProfileReader final {
 public:
  ProfileReader(std::string_view file, std::string name, std::vector<std::string>& problems)
      : file_(file), name_(std::move(name)), problems_(problems) {}

  HardwareProfile read(const YAML::Node& map) {
    HardwareProfile profile{.name = name_};
    if (!is_mapping(map, "")) return profile;
    check_keys(map, "",
               {"memory_gib", "memory_bandwidth_gb_per_s", "peer_receive_gb_per_s", "host_gb_per_s",
                "efficient_step_tokens", "bf16", "fp8"});
    const double memory = number(map, "", "memory_gib", 1, 1e6);
    profile.memory_bytes = static_cast<uint64_t>(memory * 0x1p30);
    profile.memory_bandwidth = number(map, "", "memory_bandwidth_gb_per_s", 1e-3, 1e9) * 1e9;
    profile.peer_bandwidth = number(map, "", "peer_receive_gb_per_s", 0, 1e9) * 1e9;
    profile.host_bandwidth = number(map, "", "host_gb_per_s", 1e-3, 1e9) * 1e9;
    profile.efficient_step_tokens = std::llround(number(map, "", "efficient_step_tokens", 1, 1e9));
    const YAML::Node bf16 = map["bf16"];
    if (!bf16) {
      add(map, "bf16: the key is missing, and required");
    } else if (is_mapping(bf16, "bf16")) {
      check_keys(bf16, "bf16.", {"peak_tflops", "attention_tflops", "dense_tflops", "expert_tflops"});
      profile.peak_bf16 = number(bf16, "bf16.", "peak_tflops", 1e-6, 1e9) * 1e12;
      profile.achieved_bf16 = {.attention = number(bf16, "bf16.", "attention_tflops", 1e-6, 1e9) * 1e12,
                               .dense = number(bf16, "bf16.", "dense_tflops", 1e-6, 1e9) * 1e12,
                               .expert = number(bf16, "bf16.", "expert_tflops", 1e-6, 1e9) * 1e12};
    }
    const YAML::Node fp8 = map["fp8"];
    if (fp8 && is_mapping(fp8, "fp8")) {
      check_keys(fp8, "fp8.", {"peak_tflops", "expert_tflops"});
      profile.peak_fp8 = number(fp8, "fp8.", "peak_tflops", 1e-6, 1e9) * 1e12;
      profile.achieved_fp8_expert = number(fp8, "fp8.", "expert_tflops", 1e-6, 1e9) * 1e12;
    }
    if (sound_)
      for (const std::string& problem : validate(profile)) add(map, problem);
    return profile;
  }

 private:
  void add(const YAML::Node& node, std::string_view text) {
    sound_ = false;
    problems_.push_back(fmt::format("{}:{}: {}: {}", file_, node.Mark().line + 1, name_, text));
  }

  bool is_mapping(const YAML::Node& node, std::string_view key) {
    if (node.IsMap()) return true;
    add(node, fmt::format("{}{}must be a mapping of keys", key, key.empty() ? "" : ": "));
    return false;
  }

  void check_keys(const YAML::Node& map, std::string_view where, std::initializer_list<std::string_view> known) {
    std::vector<std::string> seen;
    for (const auto& entry : map) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (std::find(known.begin(), known.end(), key) == known.end())
        add(entry.first, fmt::format("unknown key {}; the keys are {}", quote_excerpt(fmt::format("{}{}", where, key)),
                                     fmt::join(known, ", ")));
      else if (std::find(seen.begin(), seen.end(), key) != seen.end())
        add(entry.first, fmt::format("{}{}: the key is given twice", where, key));
      seen.push_back(key);
    }
  }

  double number(const YAML::Node& map, std::string_view where, const std::string& key, double low, double high) {
    const YAML::Node node = map[key];
    if (!node) {
      add(map, fmt::format("{}{}: the key is missing, and required", where, key));
      return low;
    }
    double value = 0;
    if (!node.IsScalar() || !YAML::convert<double>::decode(node, value)) {
      add(node, fmt::format("{}{} must be a number", where, key));
      return low;
    }
    if (value >= low && value <= high) return value;
    add(node, fmt::format("{}{} is {}; it must lie in [{}, {}]", where, key, value, low, high));
    return low;
  }

  std::string_view file_;
  std::string name_;
  std::vector<std::string>& problems_;
  bool sound_ = true;  ///< nothing was wrong with this profile so far
};

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::optional<HardwareProfile> find_in(const std::vector<HardwareProfile>& profiles, std::string_view name) {
  for (const HardwareProfile& profile : profiles)
    if (lower_case(profile.name) == lower_case(name)) return profile;
  return std::nullopt;
}

std::vector<HardwareProfile> read_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > kFileBytesMax)
    fail(ErrorCode::kInvalidArgument, "{} has {} bytes; a file of hardware profiles has at most {}", path.string(),
         bytes.size(), kFileBytesMax);
  return parse_hardware({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace

std::vector<HardwareProfile> parse_hardware(std::string_view text, std::string_view name) {
  std::vector<std::string> problems;
  std::vector<HardwareProfile> profiles;
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap())
      fail(ErrorCode::kInvalidArgument, "{}: it must be a mapping from names to hardware profiles", name);
    for (const auto& entry : root) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (key.empty() || find_in(profiles, key))
        problems.push_back(fmt::format("{}:{}: the name {} is {}", name, entry.first.Mark().line + 1,
                                       quote_excerpt(key), key.empty() ? "no word" : "given twice"));
      profiles.push_back(ProfileReader(name, key, problems).read(entry.second));
    }
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}:{}: {}", name, error.mark.line + 1, error.msg);
  }
  if (!problems.empty()) throw Error(ErrorCode::kInvalidArgument, fmt::format("{}", fmt::join(problems, "\n")));
  return profiles;
}

HardwareProfile find_hardware(std::string_view name, const std::filesystem::path& file) {
  std::vector<HardwareProfile> profiles;
  if (!file.empty()) profiles = read_file(file);
  for (HardwareProfile& profile : parse_hardware(shipped_hardware_text(), "data/hardware.yaml"))
    if (!find_in(profiles, profile.name)) profiles.push_back(std::move(profile));
  if (auto found = find_in(profiles, name)) return *std::move(found);
  std::vector<std::string> names;
  for (const HardwareProfile& profile : profiles) names.push_back(profile.name);
  fail(ErrorCode::kNotFound, "there is no hardware profile {}; there are {}; --hardware FILE adds others",
       quote_excerpt(name), fmt::join(names, ", "));
}

}  // namespace zp
