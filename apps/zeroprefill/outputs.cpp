// Which file is a path, if need be one that is still to come?
#include "outputs.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "zp/base/error.h"

namespace zp::app {
namespace {

using Path = std::filesystem::path;
using Status = struct stat;

/// What tells files apart whatever they are called.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  std::string new_name;  ///< empty: the file exists. Else device and inode are those of the folder that will get it.

  bool operator==(const FileId&) const = default;
};

struct File {
  NamedPath given;
  FileId id;
};

std::string cause_of(int code) { return std::generic_category().message(code); }

bool is_standard(const NamedPath& given) { return given.may_be_standard && given.path == "-"; }

// None for what writing does not destroy: a pipe, a device.
std::optional<FileId> id_of(const Status& status) {
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  return FileId{.device = status.st_dev, .inode = status.st_ino, .new_name = {}};
}

std::optional<FileId> id_of_stream(int descriptor) {
  Status status{};
  return ::fstat(descriptor, &status) == 0 ? id_of(status) : std::nullopt;
}

[[noreturn]] void fail_unwritable(const NamedPath& output, const Path& there, int code) {
  fail(ErrorCode::kIo, "{} {} cannot be written: {}: {}", output.option, output.path, there.string(), cause_of(code));
}

FileId id_of_new_file(const NamedPath& output, const Path& path) {
  const Path folder = path.has_parent_path() ? path.parent_path() : Path(".");
  Status status{};
  if (::stat(folder.c_str(), &status) != 0 || ::access(folder.c_str(), W_OK | X_OK) != 0)
    fail_unwritable(output, folder, errno);
  return {.device = status.st_dev, .inode = status.st_ino, .new_name = path.filename().string()};
}

std::optional<FileId> id_of_output(const NamedPath& output) {
  if (is_standard(output)) return id_of_stream(STDOUT_FILENO);
  constexpr int kLinksMax = 40;  // as many as Linux follows
  Path path = output.path;
  for (int links = 0; links <= kLinksMax; ++links) {
    Status status{};
    if (::stat(path.c_str(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) fail_unwritable(output, path, EISDIR);
      if (::access(path.c_str(), W_OK) != 0) fail_unwritable(output, path, errno);
      return id_of(status);
    }
    if (errno != ENOENT) fail_unwritable(output, path, errno);
    // A link to a file that does not exist: opening it makes that file.
    std::error_code no_link;
    const Path target = std::filesystem::read_symlink(path, no_link);
    if (no_link) return id_of_new_file(output, path);
    path = path.parent_path() / target;  // the target alone, if that is absolute
  }
  fail_unwritable(output, path, ELOOP);
}

std::vector<File> files_in(const NamedPath& folder) {
  std::vector<File> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder.path, error), end; !error && entry != end;
       entry.increment(error)) {
    Status status{};
    if (::stat(entry->path().c_str(), &status) != 0) continue;
    if (auto id = id_of(status)) files.push_back({{folder.option, entry->path().string()}, std::move(*id)});
  }
  if (error)
    fail(ErrorCode::kIo, "{} {} cannot be listed, to see that no output lies in it: {}", folder.option, folder.path,
         error.message());
  return files;
}

std::vector<File> files_of_input(const NamedPath& input) {
  Status status{};
  std::optional<FileId> id;
  if (is_standard(input)) {
    id = id_of_stream(STDIN_FILENO);
  } else if (::stat(input.path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return files_in(input);
    id = id_of(status);
  }
  if (!id) return {};
  return {{input, std::move(*id)}};
}

void require_different(const std::vector<File>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const NamedPath& one = outputs[j].given;
      const NamedPath& other = outputs[i].given;
      if (outputs[i].id == outputs[j].id && !(is_standard(one) && is_standard(other)))
        fail(ErrorCode::kInvalidArgument, "{} {} and {} {} are the same file", one.option, one.path, other.option,
             other.path);
    }
  }
}

}  // namespace

void require_safe_outputs(const CommandFiles& files) {
  std::vector<File> outputs;
  for (const NamedPath& given : files.outputs) {
    if (given.path.empty()) continue;
    if (auto id = id_of_output(given)) outputs.push_back({given, std::move(*id)});
  }
  require_different(outputs);
  std::erase_if(outputs, [](const File& output) { return !output.id.new_name.empty(); });
  if (outputs.empty()) return;
  for (const NamedPath& input : files.inputs) {
    if (input.path.empty()) continue;
    for (const File& read : files_of_input(input))
      for (const File& output : outputs)
        if (read.id == output.id)
          fail(ErrorCode::kInvalidArgument, "{} {} is the same file as {}, which {} reads", output.given.option,
               output.given.path, read.given.path, read.given.option);
  }
}

}  // namespace zp::app
