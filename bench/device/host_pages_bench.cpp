// How fast pages of host memory are made, by kind of page and number of threads: what pinning begins with.
//   build/bench/host_pages_bench [--gib N] [--repeat N]
// Prints the median and, in brackets, the least and the most. On a virtual machine the first range may be slower than
// all others, since the machine itself gets its memory then; so one is made before anything is measured.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "zp/base/clock.h"
#include "zp/base/error.h"
#include "zp/base/host_info.h"
#include "zp/device/host_pages.h"

namespace zp::bench {
namespace {

struct Options {
  size_t gib = 1;
  size_t repeat = 7;
};

double gb_per_second(size_t size_bytes, PageWish wish, int32_t threads) {
  const SteadyClock clock;
  HostPages pages(size_bytes, wish);
  const int64_t begin_ns = clock.now_ns();
  pages.make(threads);
  return static_cast<double>(size_bytes) / static_cast<double>(clock.now_ns() - begin_ns);
}

void run(const Options& options) {
  const size_t size_bytes = options.gib << 30;
  (void)gb_per_second(size_bytes, PageWish::kHuge, usable_cores());
  fmt::print("{} GiB\n{:<8}{:>8}  GB/s\n", options.gib, "pages", "threads");
  for (const PageWish wish : {PageWish::kSmall, PageWish::kHuge})
    for (int32_t threads = 1; threads <= std::min(usable_cores(), 16); threads *= 2) {
      std::vector<double> rates;
      for (size_t i = 0; i < options.repeat; ++i) rates.push_back(gb_per_second(size_bytes, wish, threads));
      std::ranges::sort(rates);
      fmt::print("{:<8}{:>8}  {:.2f} [{:.2f}, {:.2f}]\n", wish == PageWish::kHuge ? "huge" : "small", threads,
                 rates[rates.size() / 2], rates.front(), rates.back());
    }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string_view text = i + 1 < argc ? argv[i + 1] : "";
    size_t* value = name == "--gib" ? &options.gib : name == "--repeat" ? &options.repeat : nullptr;
    if (value == nullptr) fail(ErrorCode::kInvalidArgument, "unknown argument '{}'", name);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (error != std::errc() || end != text.data() + text.size() || *value < 1 || *value > 1024)
      fail(ErrorCode::kInvalidArgument, "{} is '{}'; it must be a number in [1, 1024]", name, text);
  }
  return options;
}

}  // namespace
}  // namespace zp::bench

int main(int argc, char** argv) {
  try {
    zp::bench::run(zp::bench::parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
