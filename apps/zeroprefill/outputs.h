// May a command write where it was told to? Opening an output empties it, so none may be something that is read, or
// another output.
#pragma once

#include <string>
#include <vector>

namespace zp::app {

/// A path, and the option that it was given with.
struct NamedPath {
  std::string option;            ///< "--summary"
  std::string path;              ///< empty: the option was not given
  bool may_be_standard = false;  ///< "-" is standard output (of an input: standard input), not a file of that name
};

struct CommandFiles {
  std::vector<NamedPath> outputs;
  std::vector<NamedPath> inputs;  ///< a folder stands for every file in it
};

/// Throws kIo if an output cannot be written, and kInvalidArgument if two outputs are one file or an output is a file
/// that is read, under whatever name, naming options and paths. Only regular files can be harmed: pipes, devices and
/// standard output may be given twice. Inputs that are missing are left to those who read them. Touches nothing; to be
/// called before anything is loaded or opened.
void require_safe_outputs(const CommandFiles& files);

}  // namespace zp::app
