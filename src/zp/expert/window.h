// Where the ranks of hybrid mode meet: who may bring in which turn's share, who may pull it, and who waits for whom.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "zp/device/device.h"

namespace zp {

struct WindowSpec {
  int32_t ranks = 1;
  int32_t depth = 4;                 ///< turns whose shares a rank has room for
  int64_t cycle = 1;                 ///< streamed layers: turn t streams the t % cycle-th of them
  int64_t patience_ns = 20'000'000;  ///< a share is late that is not there so long, and
  int64_t patience_shares = 4;       ///< so many times the usual duration of a share, after it could have begun
};

/// Turns are common to all ranks. Each rank's host streamer brings its share of turn after turn into its window; turn t
/// lies in place t % depth. Every rank pulls all shares of a turn, then of the next.
/// Invariants: the *base* is the lowest turn that an attached rank has yet to pull. Streamers bring in turns in
/// [base, base + depth) alone, so what an attached rank still needs is not overwritten, and no rank gets further than
/// depth turns ahead of another. A rank is attached while it needs turns; one that is idle with full slots is not, and
/// holds up nobody.
/// Thread-safe. Moves no bytes: it knows only turns and events.
class ExpertWindow final {
 public:
  explicit ExpertWindow(const WindowSpec& spec);

  [[nodiscard]] int32_t place_of(int64_t turn) const noexcept { return static_cast<int32_t>(turn % spec_.depth); }

  // ---- for the host streamer of a rank

  /// A turn that its share may be brought in of, once the pulls that read the same place before are done.
  struct Room {
    int64_t turn = 0;
    std::vector<Event> own_pulls{};
    std::vector<Event> peer_pulls{};
  };
  /// Blocks until there is room; empty once closed or failed.
  [[nodiscard]] std::optional<Room> await_room(int32_t rank);
  /// Never blocks; empty if there is no room now.
  [[nodiscard]] std::optional<Room> try_room(int32_t rank);
  /// The rank's share of the turn is there: peers may copy from it. Its copies had to wait for pulls of other ranks
  /// until `peers_done_ns`; 0: they had not.
  void publish(int32_t rank, int64_t turn, int64_t peers_done_ns = 0);

  // ---- for the gatherer of a rank

  /// The rank needs turns again, the next one of the streamed layer number `phase`. It goes on where the others are: a
  /// little behind them, catching up by shares straight from the host, or when they come to that layer next.
  /// Returns the turn that it pulls next.
  int64_t attach(int32_t rank, int64_t phase);
  /// The rank needs nothing for now.
  void detach(int32_t rank);
  /// Where a turn's shares are.
  struct Shares {
    int64_t turn = 0;
    std::vector<bool> late;      ///< [ranks] this one's share is to be pulled straight from host memory
    int64_t peers_ready_ns = 0;  ///< until when it was waited for other ranks (SteadyClock); 0: not at all
  };
  /// Blocks until every share of the rank's next turn is there or late. Empty once the rank has left or the window was
  /// closed; throws the failure if there was one. The rank is attached.
  [[nodiscard]] std::optional<Shares> await_shares(int32_t rank);
  /// All copies from shares of the rank's turn have been issued; they are done with these events.
  void pulled(int32_t rank, std::vector<Event> done);
  /// The rank will not come back.
  void leave(int32_t rank);

  // ---- for anybody

  /// Something that all depend on is broken: who waits here fails with this cause. The first one counts.
  void fail(std::exception_ptr failure);
  /// Nobody waits any more.
  void close();

 private:
  struct Share {
    int64_t turn = -1;  ///< brought in, or on its way
    bool ready = false;
    int64_t begun_ns = 0;
    int64_t peers_done_ns = 0;
  };
  struct Rank {
    bool attached = false;
    bool left = false;
    int64_t position = 0;                    ///< the turn that it pulls next
    int64_t next = 0;                        ///< the turn that its streamer brings in next
    std::vector<Share> shares;               ///< [depth] by place
    std::vector<std::vector<Event>> pulled;  ///< [depth] by place: its last pulls from there, out of all windows
  };

  [[nodiscard]] std::optional<int64_t> base() const;
  [[nodiscard]] std::optional<Room> take_room(int32_t rank);
  [[nodiscard]] bool is_over() const { return closed_ || failure_ != nullptr; }
  [[nodiscard]] int64_t choose_position(const Rank& rank, int64_t phase) const;
  /// What came of waiting for a share.
  struct Wait {
    bool is_there = false;
    bool has_waited = false;
  };
  [[nodiscard]] Wait await_share(std::unique_lock<std::mutex>& lock, const Rank& reader, const Rank& streamer,
                                 int64_t deadline_ns);
  [[nodiscard]] Rank& at(int32_t rank) { return ranks_.at(static_cast<size_t>(rank)); }

  const WindowSpec spec_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  std::vector<Rank> ranks_;
  int64_t usual_share_ns_ = 0;
  std::exception_ptr failure_;
  bool closed_ = false;
};

}  // namespace zp
