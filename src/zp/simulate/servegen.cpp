// Distributions as text, and quantiles.
#include "zp/simulate/servegen.h"

#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/base/mapped_file.h"

namespace zp {
namespace {

constexpr int64_t kLengthMax = int64_t{1} << 23;
constexpr double kSumTolerance = 0.01;

struct Share {
  int64_t tokens = 0;
  double up_to = 0;  ///< of all requests, those that are as long or come before
};

/// Reads "{9: 0.25, 163: 0.75}".
class DistributionReader final {
 public:
  DistributionReader(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  std::vector<Share> read() {
    std::vector<Share> shares;
    double sum = 0;
    expect('{');
    while (!accept('}')) {
      if (!shares.empty()) expect(',');
      Share share{.tokens = value<int64_t>("a length")};
      expect(':');
      const auto probability = value<double>("a probability");
      if (share.tokens < 1 || share.tokens > kLengthMax || !(probability >= 0 && probability <= 1))
        fail(ErrorCode::kCorrupt, "{}: {} tokens with probability {}; lengths lie in [1, {}], probabilities in [0, 1]",
             where_, share.tokens, probability, kLengthMax);
      share.up_to = sum += probability;
      shares.push_back(share);
    }
    if (!(std::abs(sum - 1) <= kSumTolerance))
      fail(ErrorCode::kCorrupt, "{}: the probabilities come to {}; they must come to 1", where_, sum);
    return shares;
  }

 private:
  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool accept(char wanted) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted))
      fail(ErrorCode::kCorrupt, "{}: '{}' is expected before {}", where_, wanted, quote_excerpt(rest_));
  }
  template <typename Number>
  Number value(const char* what) {
    skip_spaces();
    Number number{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc()) fail(ErrorCode::kCorrupt, "{}: {} is not {}", where_, quote_excerpt(rest_), what);
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return number;
  }

  std::string_view rest_;
  const std::string& where_;
};

// Multiples of the golden ratio lie evenly, and neighbours far apart.
int64_t length_of(const std::vector<Share>& shares, int32_t request) {
  constexpr double kGolden = 0.6180339887498949;
  double whole = 0;
  const double quantile = std::modf((request + 0.5) * kGolden, &whole) * shares.back().up_to;
  for (const Share& share : shares)
    if (quantile < share.up_to) return share.tokens;
  return shares.back().tokens;
}

}  // namespace

Workload read_servegen(const std::filesystem::path& path) {
  const MappedFile file(path);
  const simdjson::padded_string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  simdjson::dom::parser parser;
  simdjson::dom::object windows;
  if (const auto error = parser.parse(text).get(windows))
    fail(ErrorCode::kCorrupt, "{}: not a JSON object: {}", path.string(), simdjson::error_message(error));
  Workload workload{.name = path.filename().string(), .parts = {path.filename().string()}, .requests = {}};
  uint64_t number = 1;
  for (const auto& [window, value] : windows) {
    const std::string where = fmt::format("{}: window {}: input_tokens", path.string(), quote_excerpt(window));
    std::string_view lengths;
    if (value["input_tokens"].get(lengths)) fail(ErrorCode::kCorrupt, "{} is missing or no string", where);
    const std::vector<Share> shares = DistributionReader(lengths, where).read();
    for (int32_t i = 0; i < kServeGenRequests; ++i)
      workload.requests.push_back(
          {.pieces = {{.text = number++, .offset = 0, .count = static_cast<int32_t>(length_of(shares, i))}}});
  }
  if (workload.requests.empty()) fail(ErrorCode::kCorrupt, "{} has no windows", path.string());
  return workload;
}

}  // namespace zp
