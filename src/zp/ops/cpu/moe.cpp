// The down product is made in slices of the hidden size, so that its unsummed results stay small and in the cache.
#include "zp/ops/cpu/moe.h"

#include <algorithm>

namespace zp::cpu {
namespace {

constexpr int64_t kSlicePanels = 8;
constexpr int64_t kSliceColumns = kSlicePanels * kPanelColumns;

int64_t slots_max(const OpsLimits& limits) { return limits.moe_tokens * limits.experts_per_token; }

size_t inner_bytes(const OpsLimits& limits, DType activation) {
  return static_cast<size_t>(slots_max(limits) * limits.expert.intermediate) * size_of(activation);
}

size_t slice_bytes(const OpsLimits& limits) {
  const int64_t columns = std::min(kSliceColumns, round_up(limits.expert.hidden, kPanelColumns));
  return static_cast<size_t>(slots_max(limits) * columns) * sizeof(float);
}

}  // namespace

Moe::Moe(Device& device, const OpsLimits& limits, DType activation)
    : limits_(limits),
      slot_token_(static_cast<size_t>(slots_max(limits))),
      slot_of_(static_cast<size_t>(slots_max(limits))),
      expert_begin_(static_cast<size_t>(limits.experts) + 1),
      inner_(device.allocate(inner_bytes(limits, activation))),
      slice_(device.allocate(slice_bytes(limits))) {
  groups_.reserve(static_cast<size_t>(limits.experts));
}

size_t Moe::scratch_bytes(const OpsLimits& limits, DType activation) {
  const auto slots = static_cast<size_t>(slots_max(limits));
  return inner_bytes(limits, activation) + slice_bytes(limits) + 2 * slots * sizeof(int32_t) +
         (static_cast<size_t>(limits.experts) + 1) * (sizeof(int32_t) + sizeof(Group));
}

// A counting sort, which keeps the order of tokens.
void Moe::sort_by_expert(const MoeArgs& args) {
  const int64_t experts = std::ssize(args.experts);
  const int64_t chosen = args.ids.dim(1);
  const int64_t slots = args.ids.elements();
  const int32_t* ids = args.ids.as<int32_t>();
  std::fill(expert_begin_.begin(), expert_begin_.end(), 0);
  for (int64_t i = 0; i < slots; ++i) {
    ZP_CHECK(ids[i] >= 0 && ids[i] < experts, "token {} is routed to expert {} of {}", i / chosen, ids[i], experts);
    ++expert_begin_[static_cast<size_t>(ids[i]) + 1];
  }
  groups_.clear();
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e) {
    const int64_t count = expert_begin_[e + 1];
    expert_begin_[e + 1] += expert_begin_[e];
    if (count == 0) continue;
    ZP_CHECK(args.experts[e] != nullptr, "{} tokens are routed to expert {}, which is not there", count, e);
    groups_.push_back({.expert = static_cast<int64_t>(e), .slot = expert_begin_[e], .slots = count});
  }
  for (int64_t i = 0; i < slots; ++i) {
    // expert_begin_ becomes the next free slot of each expert.
    const int32_t slot = expert_begin_[static_cast<size_t>(ids[i])]++;
    slot_token_[static_cast<size_t>(slot)] = static_cast<int32_t>(i / chosen);
    slot_of_[static_cast<size_t>(i)] = slot;
  }
}

void Moe::make_items(int64_t panels, int64_t rows_max, int64_t threads) {
  // Enough items for all threads even if few experts have all the tokens.
  const int64_t wanted = ceil_div(4 * threads, std::max<int64_t>(1, std::ssize(groups_)));
  items_.clear();
  for (const Group& group : groups_) {
    const ProductSplit split(group.slots, panels, rows_max, wanted);
    for (int64_t i = 0; i < split.count(); ++i) items_.push_back({&group, split[i]});
  }
}

void Moe::run_inner(const Workers& workers, const MoeArgs& args, const Item& item, int32_t thread) const {
  const ExpertLayout layout(workers.layout(), args.size);
  const size_t element_size = size_of(workers.activation());
  const size_t x_row_bytes = static_cast<size_t>(args.size.hidden) * element_size;
  const int64_t first_slot = item.group->slot + item.product.row;
  PackedRows rows(workers, workers.scratch(thread), args.size.hidden);
  for (int64_t r = 0; r < item.product.rows; ++r) {
    const auto token = static_cast<size_t>(slot_token_[static_cast<size_t>(first_slot + r)]);
    rows.add(args.x.data() + token * x_row_bytes);
  }
  rows.pack();
  const std::byte* blob = args.experts[static_cast<size_t>(item.group->expert)];
  for (int64_t panel = item.product.panel; panel < item.product.panel + item.product.panels; ++panel) {
    const float* product = rows.multiply(blob + layout.gate_up_offset(panel));
    const int64_t column = panel * ExpertLayout::kInnerColumns;
    const int64_t to = first_slot * args.size.intermediate + column;
    workers.kernels().silu_product(
        {.product = product,
         .rows = item.product.rows,
         .columns = std::min(ExpertLayout::kInnerColumns, args.size.intermediate - column),
         .out = {inner_.data() + static_cast<size_t>(to) * element_size, workers.activation()},
         .out_stride = args.size.intermediate});
  }
}

void Moe::run_down(const Workers& workers, const MoeArgs& args, const Item& item, int64_t first_panel,
                   int32_t thread) const {
  const ExpertLayout layout(workers.layout(), args.size);
  const size_t inner_row_bytes = static_cast<size_t>(args.size.intermediate) * size_of(workers.activation());
  const int64_t first_slot = item.group->slot + item.product.row;
  PackedRows rows(workers, workers.scratch(thread), args.size.intermediate);
  for (int64_t r = 0; r < item.product.rows; ++r)
    rows.add(inner_.data() + static_cast<size_t>(first_slot + r) * inner_row_bytes);
  rows.pack();
  const std::byte* blob = args.experts[static_cast<size_t>(item.group->expert)];
  auto* slice = reinterpret_cast<float*>(slice_.data());
  const int64_t slice_stride = std::min(kSliceColumns, round_up(args.size.hidden, kPanelColumns));
  for (int64_t panel = item.product.panel; panel < item.product.panel + item.product.panels; ++panel) {
    const float* product = rows.multiply(blob + layout.down_offset(first_panel + panel));
    workers.kernels().store_product({.product = product,
                                     .rows = item.product.rows,
                                     .columns = kPanelColumns,
                                     .out = {slice + first_slot * slice_stride + panel * kPanelColumns, DType::kF32},
                                     .out_stride = slice_stride});
  }
}

void Moe::combine(const Workers& workers, const MoeArgs& args, int64_t column, int64_t columns, int64_t token) const {
  const int64_t chosen = args.ids.dim(1);
  const int64_t slice_stride = std::min(kSliceColumns, round_up(args.size.hidden, kPanelColumns));
  const auto* slice = reinterpret_cast<const float*>(slice_.data());
  float* out = args.out.as<float>() + token * args.size.hidden + column;
  std::fill_n(out, columns, 0.0f);
  for (int64_t j = 0; j < chosen; ++j) {
    const int64_t slot = slot_of_[static_cast<size_t>(token * chosen + j)];
    workers.kernels().add_scaled(out, slice + slot * slice_stride, args.weights.as<float>()[token * chosen + j],
                                 columns);
  }
}

void Moe::run(Workers& workers, const MoeArgs& args) {
  const int64_t tokens = args.ids.dim(0);
  const int64_t chosen = args.ids.dim(1);
  const int64_t slots = tokens * chosen;
  ZP_CHECK(slots <= slots_max(limits_) && std::ssize(args.experts) <= limits_.experts &&
               args.size.hidden <= limits_.expert.hidden && args.size.intermediate <= limits_.expert.intermediate,
           "moe of {} tokens * {}, {} experts of {} * {} exceeds the limits it was made for", tokens, chosen,
           args.experts.size(), args.size.hidden, args.size.intermediate);
  if (tokens == 0) return;
  sort_by_expert(args);
  const ExpertLayout layout(workers.layout(), args.size);
  const int64_t matrix_work = slots * args.size.hidden * args.size.intermediate;

  make_items(layout.gate_up_panels, PackedRows::rows_max(workers, args.size.hidden), workers.threads());
  workers.run(std::ssize(items_), 2 * matrix_work, [&](int64_t index, int32_t thread) {
    run_inner(workers, args, items_[static_cast<size_t>(index)], thread);
  });

  int64_t panels_divided = 0;  // the number that items_ divides now
  for (int64_t panel = 0; panel < layout.down_panels; panel += kSlicePanels) {
    const int64_t panels = std::min(kSlicePanels, layout.down_panels - panel);
    const int64_t column = panel * kPanelColumns;
    const int64_t columns = std::min(panels * kPanelColumns, args.size.hidden - column);
    if (panels != panels_divided)
      make_items(panels, PackedRows::rows_max(workers, args.size.intermediate), workers.threads());
    panels_divided = panels;
    workers.run(std::ssize(items_), slots * args.size.intermediate * columns, [&](int64_t index, int32_t thread) {
      run_down(workers, args, items_[static_cast<size_t>(index)], panel, thread);
    });
    workers.run_rows(tokens, chosen * columns, [&](int64_t token) { combine(workers, args, column, columns, token); });
  }
}

}  // namespace zp::cpu
