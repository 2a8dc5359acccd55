// Does any calibration file give usable rates or a zp::Error, and nothing else?
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "zp/base/error.h"
#include "zp/schedule/calibration_file.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// Rates that were accepted can be divided by; they and what they are of are the same once written.
void use(const zp::CalibrationFile& file) {
  const zp::OperationRates& rates = file.measured.rates;
  require(rates.attention > 0 && rates.dense > 0 && rates.expert > 0);
  require(file.measured.links.peer >= 0 && file.measured.links.host >= 0 && file.measured.step_seconds >= 0);
  require(!file.model.name.empty() && !file.model.dtype.empty());
  const zp::CalibrationFile again = zp::parse_calibration(zp::format_calibration(file), "again");
  require(again.measured.rates == rates && again.model == file.model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  try {
    use(zp::parse_calibration({reinterpret_cast<const char*>(data), size}, "fuzz.json"));
  } catch (const zp::Error&) {
  }
  return 0;
}
