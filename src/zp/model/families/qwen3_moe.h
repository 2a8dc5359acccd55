// Qwen3-MoE (Qwen3-30B-A3B, Qwen3-235B-A22B and their relatives).
#pragma once

#include "zp/model/family.h"

namespace zp {

/// Stateless; see qwen3_moe.cpp for the source of each rule.
[[nodiscard]] const Family& qwen3_moe_family();

}  // namespace zp
