// Makes every implementation.
#include "tests/ops/harness.h"

#include <fmt/format.h>

#include "zp/ops/cpu/cpu_ops.h"

namespace zp::test {

Harness::Harness(const Implementation& implementation) : device_(0, implementation.threads) {
  if (implementation.isa) {
    ops_ = std::make_unique<cpu::CpuOps>(device_, *implementation.isa, implementation.activation, test_limits());
  } else {
    ops_ = make_ops(device_, {.activation = implementation.activation, .reference = true, .limits = test_limits()});
  }
  stream_ = device_.create_stream("test");
}

std::vector<Implementation> all_implementations() {
  std::vector<Implementation> all;
  for (const DType activation : {DType::kF32, DType::kBf16}) {
    const std::string_view type = to_string(activation);
    all.push_back({.name = fmt::format("reference_{}", type), .activation = activation, .isa = std::nullopt});
    for (const cpu::Isa isa : {cpu::Isa::kGeneric, cpu::Isa::kAvx2, cpu::Isa::kAvx512, cpu::Isa::kAmx})
      if (isa <= cpu::detect_isa())
        all.push_back({.name = fmt::format("{}_{}", cpu::to_string(isa), type), .activation = activation, .isa = isa});
  }
  return all;
}

}  // namespace zp::test
