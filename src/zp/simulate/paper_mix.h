// The six-benchmark mix of MoE-Prefill (arXiv 2605.02960, Table 2), made up: its counts and lengths, without its texts.
#pragma once

#include <cstdint>

#include "zp/simulate/workload.h"

namespace zp {

/// 73,800 requests of about 37.9M tokens, all at once, source after source. What Table 2 leaves open is fixed here and
/// in docs/notes/scheduling.md: QuALITY asks 15 questions on each of 80 documents; MMLU has a five-shot prefix for each
/// of 57 subjects, MoralStories one for each of 6 tasks, questions in order of subjects and tasks; the others share
/// only their instruction. Always the same.
[[nodiscard]] Workload paper_mix();

}  // namespace zp
