// One reader a form.
#include "zp/simulate/trace_file.h"

#include <simdjson.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/mapped_file.h"
#include "zp/base/math.h"
#include "zp/base/whole_number.h"
#include "zp/simulate/random.h"
#include "zp/simulate/servegen.h"

namespace zp {
namespace {

constexpr int64_t kRequestTokensMax = int64_t{1} << 23;
constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;
constexpr int64_t kTimestampNsMax = int64_t{200} * 365 * kDayNs;  // since 1970, or since the trace began
constexpr int64_t kSpanNsMax = int64_t{10} * 365 * kDayNs;        // from the first request to the last
constexpr int64_t kMooncakeBlockTokens = 512;
constexpr size_t kBytesPerToken = 4;

/// Where a problem is.
struct Place {
  const std::filesystem::path& path;
  int64_t line = 0;

  template <typename... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kCorrupt, "{}:{}: {}", path.string(), line, fmt::format(format, std::forward<Args>(args)...));
  }
};

void check_tokens(const Place& place, int64_t tokens) {
  if (tokens < 0 || tokens > kRequestTokensMax)
    place.corrupt("a request of {} tokens; the limits are 0 and {}", tokens, kRequestTokensMax);
}

/// A value as it was written, for a message.
std::string excerpt(simdjson::dom::element value) { return quote_excerpt(simdjson::minify(value)); }

/// Calls `use(place, line)` for each line that is not empty.
template <typename Use>
void for_each_line(const std::filesystem::path& path, Use&& use) {
  const MappedFile file(path);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) use(Place{path, number}, line);
  }
}

int64_t integer(const Place& place, std::string_view text, std::string_view what) {
  const auto value = to_whole_number<int64_t>(text);
  if (!value) place.corrupt("{} is {}, not a number", what, quote_excerpt(text));
  return *value;
}

class JsonLines final {
 public:
  explicit JsonLines(Workload& workload) : workload_(workload) {}

  void read(const std::filesystem::path& path) {
    for_each_line(path, [&](const Place& place, std::string_view line) {
      simdjson::dom::element row;
      if (const auto error = parser_.parse(line.data(), line.size()).get(row); error || !row.is_object())
        place.corrupt("not a JSON object: {}", error ? simdjson::error_message(error) : "something else");
      simdjson::dom::array ids;
      std::string_view input;
      workload_.timed = true;
      if (!row["hash_ids"].get(ids))
        add_blocks(place, row, ids);
      else if (!row["input"].get(input))
        add_prompt(place, row, input);
      else
        place.corrupt("neither hash_ids nor input: no trace of a known form");
    });
  }

 private:
  static int64_t number(const Place& place, simdjson::dom::element row, const char* key, int64_t largest) {
    int64_t value = 0;
    simdjson::dom::element given;
    if (row[key].get(given)) place.corrupt("{} is missing", key);
    if (given.get(value)) place.corrupt("{} is {}; it must be a whole number in [0, {}]", key, excerpt(given), largest);
    if (value < 0 || value > largest) place.corrupt("{} is {}; it must lie in [0, {}]", key, value, largest);
    return value;
  }

  void add_blocks(const Place& place, simdjson::dom::element row, simdjson::dom::array ids) {
    const int64_t tokens = number(place, row, "input_length", kRequestTokensMax);
    const int64_t blocks = ceil_div(tokens, kMooncakeBlockTokens);
    if (std::cmp_not_equal(ids.size(), blocks))
      place.corrupt("{} hash_ids for {} tokens; {} blocks of {} are needed", ids.size(), tokens, blocks,
                    kMooncakeBlockTokens);
    WorkRequest request{.pieces = {},
                        .arrival_ns = number(place, row, "timestamp", kTimestampNsMax / 1'000'000) * 1'000'000};
    int64_t left = tokens;
    for (const simdjson::dom::element id : ids) {
      uint64_t text = 0;
      if (id.get(text))
        place.corrupt("one of hash_ids is {}; it must be a whole number in [0, {}]", excerpt(id), UINT64_MAX);
      const int64_t count = std::min(left, kMooncakeBlockTokens);
      request.pieces.push_back({.text = text, .offset = 0, .count = static_cast<int32_t>(count)});
      left -= count;
    }
    if (tokens > 0) workload_.requests.push_back(std::move(request));
  }

  // A text of one token for each four bytes, named by them.
  void add_prompt(const Place& place, simdjson::dom::element row, std::string_view input) {
    check_tokens(place, static_cast<int64_t>(input.size() / kBytesPerToken));
    WorkRequest request{.pieces = {}, .arrival_ns = number(place, row, "timestamp", kTimestampNsMax / 1000) * 1000};
    for (size_t at = 0; at < input.size(); at += kBytesPerToken) {
      uint64_t text = 0;
      std::memcpy(&text, input.data() + at, std::min(kBytesPerToken, input.size() - at));
      request.pieces.push_back({.text = text, .offset = 0, .count = 1});
    }
    if (!input.empty()) workload_.requests.push_back(std::move(request));
  }

  Workload& workload_;
  simdjson::dom::parser parser_;
};

// "2023-11-16 18:15:46.6805900": nanoseconds since 1970 began.
int64_t timestamp_ns(const Place& place, std::string_view text) {
  const auto bad = [&] { place.corrupt("TIMESTAMP is {}, not like 2023-11-16 18:15:46.6805900", quote_excerpt(text)); };
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || text[10] != ' ' || text[13] != ':' || text[16] != ':')
    bad();
  const auto part = [&](size_t at, size_t size, std::string_view what) {
    return static_cast<int32_t>(integer(place, text.substr(at, size), what));
  };
  const std::chrono::year_month_day date{std::chrono::year{part(0, 4, "the year")},
                                         std::chrono::month{static_cast<uint32_t>(part(5, 2, "the month"))},
                                         std::chrono::day{static_cast<uint32_t>(part(8, 2, "the day"))}};
  const int32_t hour = part(11, 2, "the hour");
  const int32_t minute = part(14, 2, "the minute");
  const int32_t second = part(17, 2, "the second");
  const auto within = [](int32_t value, int32_t largest) { return value >= 0 && value <= largest; };
  if (!date.ok() || !within(hour, 23) || !within(minute, 59) || !within(second, 60)) bad();
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  if (days < 0 || days >= kTimestampNsMax / kDayNs)
    place.corrupt("TIMESTAMP is {}; it must lie in the {} days from 1970 on", quote_excerpt(text),
                  kTimestampNsMax / kDayNs);
  int64_t ns = 0;
  if (text.size() > 19) {
    const std::string_view digits = text.substr(20);
    if (text[19] != '.' || digits.empty() || digits.size() > 9) bad();
    ns = integer(place, digits, "the fraction of a second");
    if (ns < 0) bad();
    for (size_t i = digits.size(); i < 9; ++i) ns *= 10;
  }
  return days * kDayNs + (hour * int64_t{3600} + minute * int64_t{60} + second) * 1'000'000'000 + ns;
}

void read_lengths(const std::filesystem::path& path, Workload& workload) {
  enum class Form : uint8_t { kUnknown, kAzure, kLengths };
  Form form = Form::kUnknown;
  uint64_t text = 1;
  for_each_line(path, [&](const Place& place, std::string_view line) {
    if (form == Form::kUnknown) {
      if (line.starts_with("TIMESTAMP,ContextTokens")) form = Form::kAzure;
      if (line.starts_with("num_prefill_tokens")) form = Form::kLengths;
      workload.timed = form == Form::kAzure;
      if (form == Form::kUnknown) place.corrupt("the columns {} are of no known trace", quote_excerpt(line));
      return;
    }
    std::string_view count = line.substr(0, line.find(','));
    int64_t arrival = 0;
    if (form == Form::kAzure) {
      arrival = timestamp_ns(place, count);
      if (count.size() == line.size()) place.corrupt("there is no second column");
      count = line.substr(count.size() + 1);
      count = count.substr(0, count.find(','));
    }
    const int64_t tokens = integer(place, count, "the number of tokens");
    check_tokens(place, tokens);
    if (tokens > 0)
      workload.requests.push_back(
          {.pieces = {{.text = text++, .offset = 0, .count = static_cast<int32_t>(tokens)}}, .arrival_ns = arrival});
  });
}

// Time starts with the first request.
void put_in_order(const std::filesystem::path& path, Workload& workload) {
  std::ranges::stable_sort(workload.requests, {}, &WorkRequest::arrival_ns);
  const int64_t first = workload.requests.front().arrival_ns;
  const int64_t span = workload.requests.back().arrival_ns - first;
  if (span > kSpanNsMax)
    fail(ErrorCode::kCorrupt, "{}: {} days lie between the first request and the last; the limit is {}", path.string(),
         span / kDayNs, kSpanNsMax / kDayNs);
  for (WorkRequest& request : workload.requests) request.arrival_ns -= first;
}

}  // namespace

Workload read_trace(const std::filesystem::path& path) {
  Workload workload{.name = path.filename().string(), .parts = {path.filename().string()}, .requests = {}};
  JsonLines lines(workload);
  if (std::filesystem::is_directory(path)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
    if (files.empty()) fail(ErrorCode::kNotFound, "{} has no .jsonl files", path.string());
    std::ranges::sort(files);
    for (const auto& file : files) lines.read(file);
  } else if (path.filename().string().ends_with("-dataset.json")) {
    return read_servegen(path);
  } else if (path.extension() == ".csv") {
    read_lengths(path, workload);
  } else {
    lines.read(path);
  }
  if (workload.requests.empty()) fail(ErrorCode::kCorrupt, "{} has no requests", path.string());
  put_in_order(path, workload);
  return workload;
}

}  // namespace zp
