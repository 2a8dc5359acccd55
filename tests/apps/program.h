// Runs the built program.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

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

/// Runs `zeroprefill <arguments>` in a shell, so that arguments may redirect.
inline Finished run_program(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string out = folder.path() / "out";
  const std::string err = folder.path() / "err";
  const std::string command = "(" ZP_PROGRAM " " + arguments + ") >" + out + " 2>" + err;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

}  // namespace zp::test
