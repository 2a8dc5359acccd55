// In which order do the neighbours of a word merge? The two algorithms behind byte-pair encoding.
#pragma once

#include <cstdint>
#include <vector>

#include "zp/tokenizer/merge_table.h"

namespace zp::tokenizer {

/// Merges `symbols[begin..]` in place until no neighbours merge: always the pair of the lowest rank, the leftmost of
/// equals. Removes what was merged away. Short words are scanned, long ones take time n log n.
void merge_symbols(const MergeTable& merges, std::vector<int32_t>& symbols, std::size_t begin);

}  // namespace zp::tokenizer
