// The order in which a plan looks at what waits. Used by planner.cpp alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "zp/schedule/planner.h"

namespace zp {

/// The window in the order in which the policy wants to look at it: where it reorders, those of one urgency (who is
/// due, then a priority's pressing ones, then its others) by rising order_key(), in order of the window where that is
/// equal. Ranks are usually full after a few hundred requests, so no more is sorted than is asked for: finding n of w
/// requests takes O(w + n log n).
class LookOrder final {
 public:
  using KeyOf = std::function<double(const Waiting&)>;

  /// `key_of` is the policy's order_key(), asked once for each request, as late as possible. `input` must outlive this.
  LookOrder(const PlanInput& input, KeyOf key_of) : input_(input), key_of_(std::move(key_of)) {}

  /// Null at the end.
  [[nodiscard]] const Waiting* next();
  /// Calls `use(waiting)` for each that next() has yet to give, in any order, until it returns false.
  template <typename Use>
  void visit_rest(Use&& use) const {
    for (size_t i = given_; i < keyed_.size(); ++i)
      if (!use(*input_.window[keyed_[i].place])) return;
    for (size_t place = taken_; place < input_.window.size(); ++place)
      if (!use(*input_.window[place])) return;
  }
  /// Leaves out, of the requests as urgent as the last one and still to come, those for which `misfits(waiting)` holds.
  /// Where the policy does not reorder, none.
  template <typename Misfits>
  void leave_out(Misfits&& misfits) {
    const auto begin = keyed_.begin() + static_cast<std::ptrdiff_t>(given_);
    const auto middle = keyed_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto out = [&](const Keyed& keyed) { return misfits(*input_.window[keyed.place]); };
    const auto sorted_end = std::remove_if(begin, middle, out);
    const auto end = std::remove_if(middle, keyed_.end(), out);
    sorted_ = static_cast<size_t>(sorted_end - keyed_.begin());
    keyed_.erase(std::move(middle, end, sorted_end), keyed_.end());
  }

 private:
  struct Keyed {
    double key = 0;
    size_t place = 0;  ///< in the window
    [[nodiscard]] bool operator<(const Keyed& other) const {
      return key < other.key || (key == other.key && place < other.place);
    }
  };

  void take_urgency();
  void sort_more();

  const PlanInput& input_;
  KeyOf key_of_;
  std::vector<Keyed> keyed_;  ///< of one urgency
  size_t given_ = 0;          ///< of these, how many were asked for, and
  size_t sorted_ = 0;         ///< how many are in their places
  size_t taken_ = 0;          ///< of the window, keyed so far or before
};

}  // namespace zp
