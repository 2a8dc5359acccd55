// Where the threads of virtual ranks meet: barriers and handshakes that a failure ends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "zp/tensor/tensor_view.h"

namespace zp::cpu {

/// What a rank brings to a collective. The others read it between two barriers.
struct Posting {
  TensorView data;
  ConstTensorView in;
  std::span<const int64_t> rows;  // [ranks]
};

/// Thread-safe. Nothing here spins, and every wait ends once the group has failed: it throws kDevice with the cause.
class Meeting final {
 public:
  explicit Meeting(int32_t ranks) : ranks_(ranks), postings_(static_cast<size_t>(ranks)) {}

  [[nodiscard]] int32_t ranks() const noexcept { return ranks_; }

  /// Blocks until every rank has come. Whatever a rank did before is seen by all ranks after.
  void barrier();
  /// Only for the time between the two barriers of one collective, or before the first.
  [[nodiscard]] Posting& posting(int32_t rank) { return postings_[static_cast<size_t>(rank)]; }

  struct Pair {
    int32_t from = 0;
    int32_t to = 0;
    bool operator<(const Pair& other) const { return std::tie(from, to) < std::tie(other.from, other.to); }
  };
  /// Blocks until the receiver has taken the data.
  void send(const Pair& pair, const ConstTensorView& data);
  /// Blocks until the sender has come; then `take` reads the data, and the sender goes on.
  template <typename Take>
  void receive(const Pair& pair, Take&& take) {
    take(begin_receive(pair));
    end_receive(pair);
  }

  /// The first cause counts.
  void abort(int32_t rank, const std::exception_ptr& cause) noexcept;

 private:
  struct Mail {
    ConstTensorView data;
    bool full = false;
  };
  [[nodiscard]] ConstTensorView begin_receive(const Pair& pair);
  void end_receive(const Pair& pair);
  void throw_if_failed() const;  // with mutex_ held

  const int32_t ranks_;
  std::vector<Posting> postings_;  // each written by its rank alone
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int32_t arrived_ = 0;        // guarded by mutex_; in the current barrier
  uint64_t generation_ = 0;    // guarded by mutex_; barriers passed
  std::map<Pair, Mail> mail_;  // guarded by mutex_
  bool failed_ = false;        // guarded by mutex_
  std::string failure_;        // guarded by mutex_
};

}  // namespace zp::cpu
