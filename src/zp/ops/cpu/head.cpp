// The vocabulary is cut into chunks of a fixed width; each gives a partial sum a row, and partial sums are added in
// double in the order of the chunks.
#include "zp/ops/cpu/head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "zp/ops/cpu/gemm.h"

namespace zp::cpu {
namespace {

constexpr int64_t kChunkPanels = 16;
constexpr int64_t kChunkColumns = kChunkPanels * kPanelColumns;
static_assert(ThreadScratch::kLogitRows * kChunkColumns * sizeof(float) <= ThreadScratch::kLogitBytes);

int64_t chunk_count(int64_t vocabulary) { return ceil_div(vocabulary, kChunkColumns); }

// Differences to an infinite largest logit would be NaN; differences to the largest finite number are infinite or zero,
// as they should be.
float finite_top(float top) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  return std::isnan(top) ? top : std::clamp(top, -kLargest, kLargest);
}

}  // namespace

struct Head::Item {
  int64_t chunk = 0;
  int64_t row = 0;
  int64_t rows = 0;
};

Head::Head(const OpsLimits& limits)
    : partials_(static_cast<size_t>(limits.head_rows * chunk_count(limits.vocabulary))),
      chunk_begin_(static_cast<size_t>(chunk_count(limits.vocabulary)) + 1) {}

size_t Head::scratch_bytes(const OpsLimits& limits) {
  return static_cast<size_t>(limits.head_rows * chunk_count(limits.vocabulary)) * sizeof(Partial);
}

// A counting sort by chunk; rows rise within a chunk.
void Head::sort_candidates(const HeadArgs& args, int64_t chunks) {
  const int64_t rows = args.x.dim(0);
  const int64_t begin = args.offsets[0];
  const int64_t end = args.offsets[static_cast<size_t>(rows)];
  const auto chunk_of = [&](int64_t index) {
    return static_cast<size_t>(args.candidates[static_cast<size_t>(index)] / kChunkColumns);
  };
  std::fill_n(chunk_begin_.begin(), chunks + 1, 0);
  for (int64_t i = begin; i < end; ++i) ++chunk_begin_[chunk_of(i) + 1];
  for (size_t c = 0; c < static_cast<size_t>(chunks); ++c) chunk_begin_[c + 1] += chunk_begin_[c];
  candidates_.resize(static_cast<size_t>(end - begin));
  std::vector<int64_t> next(chunk_begin_.begin(), chunk_begin_.end());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = args.offsets[static_cast<size_t>(row)]; i < args.offsets[static_cast<size_t>(row) + 1]; ++i)
      candidates_[static_cast<size_t>(next[chunk_of(i)]++)] = {
          .id = args.candidates[static_cast<size_t>(i)], .row = static_cast<int32_t>(row), .index = i};
}

void Head::run_item(const Workers& workers, const HeadArgs& args, const Item& item, int32_t thread) {
  const PackedMatrix& weight = *args.weight;
  const ThreadScratch scratch = workers.scratch(thread);
  const size_t panel_bytes = workers.layout().panel_bytes(weight.k);
  const size_t row_bytes = static_cast<size_t>(weight.k) * size_of(workers.activation());
  PackedRows rows(workers, scratch, weight.k);
  for (int64_t r = 0; r < item.rows; ++r) rows.add(args.x.data() + static_cast<size_t>(item.row + r) * row_bytes);
  rows.pack();

  const int64_t first_column = item.chunk * kChunkColumns;
  const int64_t columns = std::min(kChunkColumns, weight.n - first_column);
  float* logits = scratch.logits;  // [rows, kChunkColumns]
  for (int64_t column = 0; column < columns; column += kPanelColumns) {
    const int64_t panel = (first_column + column) / kPanelColumns;
    const float* product = rows.multiply(weight.buffer.data() + static_cast<size_t>(panel) * panel_bytes);
    workers.kernels().store_product({.product = product,
                                     .rows = item.rows,
                                     .columns = kPanelColumns,
                                     .out = {logits + column, DType::kF32},
                                     .out_stride = kChunkColumns});
  }

  const int64_t chunks = chunk_count(weight.n);
  for (int64_t r = 0; r < item.rows; ++r) {
    const float* row = logits + r * kChunkColumns;
    const float top = finite_top(workers.kernels().largest(row, columns));
    partials_[static_cast<size_t>((item.row + r) * chunks + item.chunk)] = {
        .top = top, .sum = workers.kernels().sum_exp(row, top, columns)};
  }
  for (int64_t i = chunk_begin_[static_cast<size_t>(item.chunk)]; i < chunk_begin_[static_cast<size_t>(item.chunk) + 1];
       ++i) {
    const Candidate& candidate = candidates_[static_cast<size_t>(i)];
    const int64_t r = candidate.row - item.row;
    if (r < 0 || r >= item.rows) continue;
    args.logits.as<float>()[candidate.index] = logits[r * kChunkColumns + candidate.id - first_column];
  }
}

float Head::combine(std::span<const Partial> partials) {
  double top = -std::numeric_limits<double>::infinity();
  for (const Partial& partial : partials) top = std::max(top, static_cast<double>(partial.top));
  double sum = 0;
  for (const Partial& partial : partials)
    sum += static_cast<double>(partial.sum) * std::exp(static_cast<double>(partial.top) - top);
  return static_cast<float>(top + std::log(sum));
}

void Head::run(Workers& workers, const HeadArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t chunks = chunk_count(args.weight->n);
  ZP_CHECK(rows * chunks <= std::ssize(partials_) && chunks < std::ssize(chunk_begin_),
           "head of {} rows and {} tokens exceeds the limits it was made for", rows, args.weight->n);
  if (rows == 0) return;
  sort_candidates(args, chunks);
  const int64_t rows_max = std::min(PackedRows::rows_max(workers, args.weight->k), ThreadScratch::kLogitRows);
  const int64_t row_chunks = ceil_div(rows, rows_max);
  workers.run(chunks * row_chunks, rows * args.weight->n * args.weight->k, [&](int64_t index, int32_t thread) {
    const int64_t row = index % row_chunks * rows_max;
    run_item(workers, args, {.chunk = index / row_chunks, .row = row, .rows = std::min(rows_max, rows - row)}, thread);
  });
  for (int64_t r = 0; r < rows; ++r)
    args.log_sum_exp.as<float>()[r] = combine({partials_.data() + r * chunks, static_cast<size_t>(chunks)});
}

}  // namespace zp::cpu
