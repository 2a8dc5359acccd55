// Counts turns.
#include "zp/expert/window.h"

#include <algorithm>
#include <chrono>

#include "zp/base/check.h"
#include "zp/base/clock.h"

namespace zp {
namespace {

std::chrono::steady_clock::time_point time_point(int64_t time_ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time_ns));
}

// The lowest turn from `from` on that streams the layer of `phase`.
int64_t align_up(int64_t from, int64_t phase, int64_t cycle) {
  const int64_t rest = (from - phase) % cycle;
  return rest == 0 ? from : from + cycle - (rest + cycle) % cycle;
}

}  // namespace

ExpertWindow::ExpertWindow(const WindowSpec& spec) : spec_(spec), ranks_(static_cast<size_t>(spec.ranks)) {
  ZP_CHECK(spec.ranks >= 1 && spec.depth >= 1 && spec.cycle >= 1, "a window of {} turns of {} layers for {} ranks",
           spec.depth, spec.cycle, spec.ranks);
  for (Rank& rank : ranks_) {
    rank.shares.resize(static_cast<size_t>(spec.depth));
    rank.pulled.resize(static_cast<size_t>(spec.depth));
  }
}

std::optional<int64_t> ExpertWindow::base() const {
  std::optional<int64_t> lowest;
  for (const Rank& rank : ranks_)
    if (rank.attached) lowest = std::min(lowest.value_or(rank.position), rank.position);
  return lowest;
}

std::optional<ExpertWindow::Room> ExpertWindow::take_room(int32_t rank) {
  Rank& mine = at(rank);
  const std::optional<int64_t> lowest = base();
  if (!lowest || is_over()) return std::nullopt;
  // Turns that nobody needs any more are skipped.
  const int64_t turn = std::max(mine.next, *lowest);
  if (turn >= *lowest + spec_.depth) return std::nullopt;
  const auto place = static_cast<size_t>(place_of(turn));
  mine.next = turn + 1;
  mine.shares[place] = {.turn = turn, .ready = false, .begun_ns = SteadyClock().now_ns()};
  Room room{.turn = turn};
  for (const Rank& reader : ranks_) {
    std::vector<Event>& pulls = &reader == &mine ? room.own_pulls : room.peer_pulls;
    pulls.insert(pulls.end(), reader.pulled[place].begin(), reader.pulled[place].end());
  }
  return room;
}

std::optional<ExpertWindow::Room> ExpertWindow::await_room(int32_t rank) {
  std::unique_lock lock(mutex_);
  std::optional<Room> room;
  changed_.wait(lock, [&] { return is_over() || (room = take_room(rank)).has_value(); });
  return room;
}

std::optional<ExpertWindow::Room> ExpertWindow::try_room(int32_t rank) {
  const std::lock_guard lock(mutex_);
  return take_room(rank);
}

void ExpertWindow::publish(int32_t rank, int64_t turn, int64_t peers_done_ns) {
  {
    const std::lock_guard lock(mutex_);
    Share& share = at(rank).shares[static_cast<size_t>(place_of(turn))];
    // Everybody got this turn from elsewhere meanwhile, and a later one is on its way to the same place.
    if (share.turn != turn) return;
    share.ready = true;
    share.peers_done_ns = peers_done_ns;
    usual_share_ns_ = (3 * usual_share_ns_ + SteadyClock().now_ns() - share.begun_ns) / 4;
  }
  changed_.notify_all();
}

// A rank that comes back finds the others at any layer. Just behind them, what it has missed comes straight from host
// memory, at the price of all ranks' shares for each turn; else it waits until they come round to its layer.
int64_t ExpertWindow::choose_position(const Rank& rank, int64_t phase) const {
  const std::optional<int64_t> lowest = base();
  if (!lowest) {
    int64_t newest = 0;
    for (const Rank& other : ranks_) newest = std::max(newest, other.next);
    return align_up(std::max(rank.position, newest - spec_.depth), phase, spec_.cycle);
  }
  if (rank.position >= *lowest && rank.position <= *lowest + spec_.depth) return rank.position;
  const int64_t ahead = align_up(*lowest, phase, spec_.cycle);
  const int64_t behind = ahead - spec_.cycle;
  const int64_t missed = *lowest - behind;
  return behind >= 0 && missed * spec_.ranks <= ahead - *lowest ? behind : ahead;
}

int64_t ExpertWindow::attach(int32_t rank, int64_t phase) {
  int64_t position = 0;
  {
    const std::lock_guard lock(mutex_);
    Rank& mine = at(rank);
    ZP_CHECK(!mine.attached, "rank {} is attached twice", rank);
    position = choose_position(mine, phase);
    ZP_CHECK(position % spec_.cycle == phase, "rank {} needs layer {} and would get turn {}", rank, phase, position);
    mine.position = position;
    mine.attached = !mine.left;
  }
  changed_.notify_all();
  return position;
}

void ExpertWindow::detach(int32_t rank) {
  {
    const std::lock_guard lock(mutex_);
    at(rank).attached = false;
  }
  changed_.notify_all();
}

// Waits until the streamer's share of the reader's turn is there, or late, or will never be.
ExpertWindow::Wait ExpertWindow::await_share(std::unique_lock<std::mutex>& lock, const Rank& reader,
                                             const Rank& streamer, int64_t deadline_ns) {
  const int64_t turn = reader.position;
  const Share& share = streamer.shares[static_cast<size_t>(place_of(turn))];
  const auto settled = [&] {
    const bool missed = share.turn != turn && streamer.next > turn;
    return is_over() || reader.left || missed || (share.turn == turn && share.ready);
  };
  const bool has_waited = !settled() && SteadyClock().now_ns() < deadline_ns;
  (void)changed_.wait_until(lock, time_point(deadline_ns), settled);
  return {.is_there = share.turn == turn && share.ready, .has_waited = has_waited};
}

std::optional<ExpertWindow::Shares> ExpertWindow::await_shares(int32_t rank) {
  const SteadyClock clock;
  std::unique_lock lock(mutex_);
  Rank& mine = at(rank);
  ZP_CHECK(mine.attached || mine.left, "rank {} asks for shares and is not attached", rank);
  Shares shares{.turn = mine.position, .late = std::vector<bool>(ranks_.size()), .peers_ready_ns = 0};
  const auto in_window = [&] { return is_over() || mine.left || mine.position < *base() + spec_.depth; };
  if (!in_window()) {
    changed_.wait(lock, in_window);
    shares.peers_ready_ns = clock.now_ns();
  }
  const int64_t deadline_ns = clock.now_ns() + spec_.patience_ns + spec_.patience_shares * usual_share_ns_;
  // Its own first: it waits for other ranks as long as these keep the place busy, and then for its link. What is waited
  // for after that is waited for because of others.
  const Wait own = await_share(lock, mine, mine, deadline_ns);
  shares.late[static_cast<size_t>(rank)] = !own.is_there;
  if (own.is_there && own.has_waited)
    shares.peers_ready_ns =
        std::max(shares.peers_ready_ns, mine.shares[static_cast<size_t>(place_of(shares.turn))].peers_done_ns);
  for (size_t other = 0; other < ranks_.size(); ++other) {
    if (static_cast<int32_t>(other) == rank) continue;
    const Wait wait = await_share(lock, mine, ranks_[other], deadline_ns);
    shares.late[other] = !wait.is_there;
    if (wait.has_waited) shares.peers_ready_ns = clock.now_ns();
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  if (closed_ || mine.left) return std::nullopt;
  return shares;
}

void ExpertWindow::pulled(int32_t rank, std::vector<Event> done) {
  {
    const std::lock_guard lock(mutex_);
    Rank& mine = at(rank);
    mine.pulled[static_cast<size_t>(place_of(mine.position))] = std::move(done);
    ++mine.position;
  }
  changed_.notify_all();
}

void ExpertWindow::leave(int32_t rank) {
  {
    const std::lock_guard lock(mutex_);
    at(rank).left = true;
    at(rank).attached = false;
  }
  changed_.notify_all();
}

void ExpertWindow::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(failure);
  }
  changed_.notify_all();
}

void ExpertWindow::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace zp
