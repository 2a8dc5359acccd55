// Writes requests, a line at a time.
#include "zp/simulate/request_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "zp/base/check.h"
#include "zp/base/error.h"

namespace zp {

void write_requests(const Workload& workload, int32_t vocabulary, const std::filesystem::path& path) {
  ZP_CHECK(vocabulary >= 2, "a vocabulary of {}", vocabulary);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  std::string line;
  int64_t number = 0;
  for (const WorkRequest& request : workload.requests) {
    line.clear();
    fmt::format_to(std::back_inserter(line), R"({{"id":"{}/{}","tokens":[)",
                   workload.parts.at(static_cast<size_t>(request.part)), number++);
    bool first = true;
    for (const int32_t id : request.token_ids()) {
      fmt::format_to(std::back_inserter(line), "{}{}", first ? "" : ",", id % vocabulary);
      first = false;
    }
    line += R"(],"candidates":[0,1]})"
            "\n";
    file << line;
  }
  file.close();
  if (!file) fail(ErrorCode::kIo, "{} cannot be written", path.string());
}

}  // namespace zp
