// Runs the built program.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace zp::test {

struct Finished {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// JSON values, one a line.
inline std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// Runs commands in a shell.
inline Finished run_shell(const std::string& commands) {
  const TemporaryFolder folder;
  const std::string out = folder.path() / "out";
  const std::string err = folder.path() / "err";
  const std::string command = "(" + commands + ") >" + out + " 2>" + err;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

/// Runs `zeroprefill <arguments>` in a shell, so that arguments may redirect.
inline Finished run_program(const std::string& arguments) { return run_shell(ZP_PROGRAM " " + arguments); }

}  // namespace zp::test
