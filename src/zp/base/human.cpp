// How large numbers are written for people.
#include "zp/base/human.h"

#include <fmt/format.h>

#include <array>

namespace zp {
namespace {

template <size_t N>
std::string scaled(double value, double step, const std::array<const char*, N>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < N) {
    value /= step;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0]) : fmt::format("{:.2f}{}", value, units[unit]);
}

}  // namespace

std::string human_bytes(uint64_t bytes) {
  return scaled<5>(static_cast<double>(bytes), 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string human_count(int64_t count) {
  return scaled<6>(static_cast<double>(count), 1000, {"", " K", " M", " G", " T", " P"});
}

}  // namespace zp
