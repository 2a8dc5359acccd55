// What this machine's cores can execute.
#pragma once

#include <cstdint>
#include <string_view>

namespace zp::cpu {

/// Instruction sets that kernels exist for, each including those before it.
enum class Isa : uint8_t {
  kGeneric,  ///< Plain x86-64.
  kAvx2,     ///< AVX2 and FMA.
  kAvx512,   ///< AVX-512 F, BW, DQ and VL.
  kAmx,      ///< AVX-512 and AMX tiles of bf16.
};

[[nodiscard]] std::string_view to_string(Isa isa) noexcept;

/// The best set that the processor has and the operating system lets this process use. Asks the system for the use of
/// AMX tiles, which holds for all threads of the process.
[[nodiscard]] Isa detect_isa();

}  // namespace zp::cpu
