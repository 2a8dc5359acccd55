// The mixture of experts: rows sorted by expert, two products, and a sum per token in the order of its experts.
#pragma once

#include <cstdint>
#include <vector>

#include "zp/ops/cpu/gemm.h"
#include "zp/ops/cpu/workers.h"
#include "zp/ops/factory.h"

namespace zp::cpu {

/// Holds the scratch memory of moe(), sized once. Used by one stream's thread at a time.
class Moe final {
 public:
  Moe(Device& device, const OpsLimits& limits, DType activation);

  /// Bytes that a Moe of these limits takes.
  [[nodiscard]] static size_t scratch_bytes(const OpsLimits& limits, DType activation);

  void run(Workers& workers, const MoeArgs& args);

 private:
  /// Consecutive slots of one expert. A slot is a (token, j) pair; slots are sorted by expert, then by token and j.
  struct Group {
    int64_t expert = 0;
    int64_t slot = 0;
    int64_t slots = 0;
  };
  struct Item {
    const Group* group = nullptr;
    ProductItem product;
  };

  void sort_by_expert(const MoeArgs& args);
  /// Divides every group's product with `panels` panels.
  void make_items(int64_t panels, int64_t rows_max, int64_t threads);
  void run_inner(const Workers& workers, const MoeArgs& args, const Item& item, int32_t thread) const;
  void run_down(const Workers& workers, const MoeArgs& args, const Item& item, int64_t first_panel,
                int32_t thread) const;
  void combine(const Workers& workers, const MoeArgs& args, int64_t column, int64_t columns, int64_t token) const;

  OpsLimits limits_;
  std::vector<int32_t> slot_token_;    // [T * k], by slot
  std::vector<int32_t> slot_of_;       // [T * k], by token and j
  std::vector<int32_t> expert_begin_;  // [E + 1], first slot
  std::vector<Group> groups_;          // experts that have slots
  std::vector<Item> items_;
  Buffer inner_;  // [T * k, I] A
  Buffer slice_;  // [T * k, slice columns] f32
};

}  // namespace zp::cpu
