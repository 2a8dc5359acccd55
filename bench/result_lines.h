// What every line of bench/results says of its run, in one place: command, commit, device, seed and a hash of the
// outputs.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "zp/base/error.h"

namespace zp::bench {

/// Without these a figure cannot be told from any other, nor measured again.
struct RunFacts {
  std::string command;  ///< command_of()
  std::string commit;   ///< that was measured; must be named where lines are written
  std::string device;   ///< in words: Device::description()
  uint64_t seed = 0;    ///< of all that is random
};

/// The program without its folder, and its arguments: "load_bench --device cuda".
[[nodiscard]] inline std::string command_of(int argc, const char* const* argv) {
  return fmt::format("{}{}{}", std::filesystem::path(argv[0]).filename().string(), argc > 1 ? " " : "",
                     fmt::join(argv + 1, argv + argc, " "));
}

/// FNV-1a over bytes.
class OutputHash final {
 public:
  void add(std::span<const std::byte> bytes) noexcept {
    for (const std::byte byte : bytes) value_ = (value_ ^ std::to_integer<uint64_t>(byte)) * 0x100000001B3U;
  }
  void add(std::span<const float> values) noexcept { add(std::as_bytes(values)); }
  [[nodiscard]] uint64_t value() const noexcept { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325U;
};

/// A file of result lines, or none.
class ResultFile final {
 public:
  /// Lines are appended; none where `path` is empty. Else throws kInvalidArgument without a commit, kIo if it cannot be
  /// opened.
  ResultFile(const std::string& path, const std::string& commit) : path_(path) {
    if (path.empty()) return;
    if (commit.empty())
      fail(ErrorCode::kInvalidArgument, "lines are to be written to {}, and --commit does not say of which commit",
           path);
    file_.open(path, std::ios::out | std::ios::app);
    if (!file_) fail(ErrorCode::kIo, "cannot write {}", path);
  }

  /// Appends the facts to the figures, and that to the file; the device as `gpu` where it is one. `output_hash`: unset
  /// where a run has no outputs, or others each time. Throws kIo.
  void write(nlohmann::ordered_json figures, const RunFacts& facts, std::optional<uint64_t> output_hash) {
    if (!file_.is_open()) return;
    figures[facts.device.find("NVIDIA") != std::string::npos ? "gpu" : "device"] = facts.device;
    figures["command"] = facts.command;
    figures["commit"] = facts.commit;
    figures["seed"] = facts.seed;
    figures["output_hash"] = output_hash ? nlohmann::ordered_json(fmt::format("{:016x}", *output_hash)) : nullptr;
    file_ << figures.dump() << '\n' << std::flush;
    if (!file_) fail(ErrorCode::kIo, "cannot write {}", path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace zp::bench
