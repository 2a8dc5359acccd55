// Keys of one urgency at a time, sorted part by part.
#include "zp/schedule/look_order.h"

#include <algorithm>
#include <tuple>

namespace zp {
namespace {

// How many requests are sorted at first, and how many times as many each further time.
constexpr size_t kSortedFirst = 256;
constexpr size_t kSortedGrowth = 4;

}  // namespace

const Waiting* LookOrder::next() {
  if (!input_.policy->reorders()) return taken_ < input_.window.size() ? input_.window[taken_++] : nullptr;
  if (given_ == keyed_.size()) take_urgency();
  if (given_ == keyed_.size()) return nullptr;
  if (given_ == sorted_) sort_more();
  return input_.window[keyed_[given_++].place];
}

// The requests that come next in the window and are equally urgent.
void LookOrder::take_urgency() {
  const auto urgency = [&](size_t i) {
    const Waiting& waiting = *input_.window[i];
    return std::tuple(i == 0 && input_.first_is_due, waiting.priority, waiting.presses(input_.pressing_ns));
  };
  keyed_.clear();
  given_ = sorted_ = 0;
  if (taken_ == input_.window.size()) return;
  keyed_.reserve(input_.window.size() - taken_);
  for (const auto first = urgency(taken_); taken_ < input_.window.size() && urgency(taken_) == first; ++taken_)
    keyed_.push_back({key_of_(*input_.window[taken_]), taken_});
}

void LookOrder::sort_more() {
  const size_t end = std::min(keyed_.size(), std::max(kSortedFirst, kSortedGrowth * sorted_));
  const auto at = [this](size_t i) { return keyed_.begin() + static_cast<std::ptrdiff_t>(i); };
  std::nth_element(at(sorted_), at(end - 1), keyed_.end());
  std::sort(at(sorted_), at(end));
  sorted_ = end;
}

}  // namespace zp
