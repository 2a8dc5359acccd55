// Gathers from shards, windows and host memory.
#include "zp/expert/hybrid.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "zp/base/check.h"
#include "zp/base/error.h"

namespace zp {
namespace {

std::string_view name_of(Lane lane) {
  if (lane == Lane::kGather) return "gather";
  return lane == Lane::kWindow ? "own" : "late";
}

}  // namespace

HostChannel::HostChannel(const ExpertCluster& cluster, std::vector<Device*> devices, std::vector<SpanLog*> spans,
                         const StreamingSpec& spec)
    : window_({.ranks = cluster.placement().ranks(),
               .depth = spec.window,
               .cycle = static_cast<int64_t>(cluster.placement().streamed_layers().size()),
               .patience_ns = spec.share_patience_ns}) {
  for (size_t r = 0; r < devices.size(); ++r)
    streamers_.push_back(std::make_unique<HostStreamer>(cluster, window_, *devices[r],
                                                        HostStreamerSpec{.rank = static_cast<int32_t>(r),
                                                                         .depth = spec.window,
                                                                         .slice_bytes = spec.slice_bytes,
                                                                         .poison = spec.poison},
                                                        spans[r]));
}

HybridExperts::HybridExperts(const ExpertCluster& cluster, HostChannel& channel, int32_t rank, Device& device,
                             const StreamingSpec& spec, SpanLog* spans)
    : cluster_(cluster),
      channel_(channel),
      rank_(rank),
      device_(device),
      slice_bytes_(spec.slice_bytes),
      spans_(spans),
      slots_(static_cast<size_t>(spec.slots)),
      ring_(device, {.slots = spec.slots,
                     .slot_bytes = static_cast<size_t>(cluster.placement().remote_max(rank)) * cluster.blob_bytes(),
                     .poison = spec.poison}),
      tables_(cluster, rank, ring_, spec.slice_bytes),
      peer_stream_(device.create_stream("gather", StreamUse::kPeerLink)),
      own_stream_(device.create_stream("own window")),
      host_stream_(device.create_stream("late shares", StreamUse::kHostLink)),
      streams_({peer_stream_.get(), own_stream_.get(), host_stream_.get()}),
      thread_([this] { gather(); }) {}

HybridExperts::~HybridExperts() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  channel_.window().leave(rank_);
  thread_.join();
}

std::span<const std::byte* const> HybridExperts::acquire(int32_t layer, Stream& compute) {
  if (!tables_.is_streamed(layer)) return tables_.experts(layer, 0);
  const Event before = compute.record(EventTiming::kTimed);
  std::unique_lock lock(mutex_);
  const int64_t turn = ring_.use_turn();
  ZP_CHECK(tables_.layer_of(turn) == layer, "layer {} is acquired; its turn is layer {}'s", layer,
           tables_.layer_of(turn));
  changed_.wait(lock, [&] { return failure_ != nullptr || ring_.fetch_turn() > turn; });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  ring_.acquire(compute);
  const Event after = compute.record(EventTiming::kTimed);
  const int32_t slot = ring_.slot_of(turn);
  waits_.add(layer, before, after, slots_[static_cast<size_t>(slot)].peers_ready_ns);
  if (spans_ != nullptr) spans_->add(Lane::kWait, fmt::format("wait {}", layer), before, after);
  return tables_.experts(layer, slot);
}

void HybridExperts::release(int32_t layer, Stream& compute) {
  if (!tables_.is_streamed(layer)) return;
  {
    const std::lock_guard lock(mutex_);
    ring_.release(compute);
  }
  changed_.notify_all();
}

void HybridExperts::set_busy(bool busy) {
  {
    const std::lock_guard lock(mutex_);
    busy_ = busy;
  }
  changed_.notify_all();
}

void HybridExperts::abandon(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    channel_.window().fail(std::make_exception_ptr(
        Error(ErrorCode::kDevice,
              fmt::format("rank {}, which brings in a share of every layer, has ended: {}", rank_, error.what()))));
  }
}

// The links are shared with what fills slots and window after a start; but not for ever waited for.
void HybridExperts::await_quiet() {
  constexpr std::chrono::milliseconds kLook(2);
  constexpr int32_t kLooksMax = 500;
  constexpr int32_t kQuietLooks = 3;
  int32_t quiet = 0;
  for (int32_t look = 0; look < kLooksMax && quiet < kQuietLooks; ++look) {
    std::this_thread::sleep_for(kLook);
    const std::lock_guard lock(mutex_);
    // With full slots the gatherer does nothing, so what it keeps of their copies may be looked at.
    const auto has_arrived = [](const SlotCopies& copies) {
      return std::ranges::all_of(copies.ready, [](const Event& e) { return e.status() != EventStatus::kPending; });
    };
    const bool idle =
        !ring_.has_room() && std::ranges::all_of(slots_, has_arrived) && channel_.streamer(rank_).is_idle();
    quiet = idle ? quiet + 1 : 0;
  }
}

// What ranks keep of the first layer of experts, which all have, stands for what comes from peers.
HybridExperts::LinkTimings HybridExperts::time_links(std::span<std::byte> scratch) {
  const Placement& placement = cluster_.placement();
  const size_t bytes = std::min({cluster_.blob_bytes(), slice_bytes_, scratch.size()});
  int32_t first = 0;
  while (!placement.is_moe(first)) ++first;
  std::vector<CopyRange> from_peers;
  std::vector<CopyRange> from_host;
  for (int32_t e = 0; e < placement.experts(); ++e) {
    const int32_t peer = (rank_ + 1 + e % (placement.ranks() - 1)) % placement.ranks();
    from_peers.push_back({scratch.data(), cluster_.address_on(peer, {first, e}), bytes});
  }
  for (const ExpertId& id : placement.experts_on_host()) {
    if (from_host.size() == from_peers.size()) break;
    from_host.push_back({scratch.data(), cluster_.address(id, rank_), bytes});
  }
  await_quiet();
  const std::unique_ptr<Stream> peers = device_.create_stream("timed gather", StreamUse::kPeerLink);
  const std::unique_ptr<Stream> host = device_.create_stream("timed host", StreamUse::kHostLink);
  return {time_copies(*peers, from_peers), time_copies(*host, from_host)};
}

void HybridExperts::gather() {
  try {
    while (await_work())
      if (!fetch()) return;
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    changed_.notify_all();
    // Whoever waits for this rank would wait for ever.
    channel_.window().fail(failure_);
  }
}

// Waits until a slot has room; false once it is to stop. A rank that is idle with full slots holds up nobody.
bool HybridExperts::await_work() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (stopping_) return false;
    if (ring_.has_room()) break;
    if (attached_ && !busy_) {
      attached_ = false;
      channel_.window().detach(rank_);
    }
    changed_.wait(lock);
  }
  if (!attached_) {
    attached_ = true;
    (void)channel_.window().attach(rank_, ring_.fetch_turn() % tables_.cycle_length());
  }
  return true;
}

// Brings the next turn in; false once the window is closed.
bool HybridExperts::fetch() {
  int64_t turn = 0;
  {
    const std::lock_guard lock(mutex_);
    turn = ring_.fetch_turn();
  }
  const int32_t layer = tables_.layer_of(turn);
  const int32_t slot = ring_.slot_of(turn);
  SlotCopies& copies = slots_[static_cast<size_t>(slot)];
  for (const Event& ready : copies.ready) ready.wait();  // its lists of copies are still being read
  {
    const std::lock_guard lock(mutex_);
    ring_.begin_fetch(streams_);
  }
  // What peers keep needs no window: it comes while shares are still on their way from the host.
  copies.ready.clear();
  const std::span<const CopyRange> resident = tables_.resident_copies(layer, slot);
  if (!resident.empty()) (void)copy(*peer_stream_, resident, Lane::kGather, layer);
  const std::optional<ExpertWindow::Shares> shares = channel_.window().await_shares(rank_);
  if (!shares) return false;
  resolve(layer, slot, *shares);
  copies.ready.push_back(copy(*peer_stream_, copies.from_peers, Lane::kGather, layer));
  copies.ready.push_back(copy(*own_stream_, copies.from_own_window, Lane::kWindow, layer));
  std::vector<Event> pulled = copies.ready;
  copies.ready.push_back(copy(*host_stream_, copies.from_host, Lane::kHost, layer));
  {
    const std::lock_guard lock(mutex_);
    copies.peers_ready_ns = shares->peers_ready_ns;
    ring_.end_fetch(streams_);
  }
  changed_.notify_all();
  channel_.window().pulled(rank_, std::move(pulled));
  return true;
}

// Finds each share where it is this time: in a peer's window, in the rank's own, or still in host memory.
void HybridExperts::resolve(int32_t layer, int32_t slot, const ExpertWindow::Shares& shares) {
  SlotCopies& copies = slots_[static_cast<size_t>(slot)];
  copies.from_peers.clear();
  copies.from_own_window.clear();
  copies.from_host.clear();
  const int32_t place = channel_.window().place_of(shares.turn);
  const std::span<const CopyRange> host = tables_.host_copies(layer, slot);
  const std::vector<Pull>& pulls = tables_.plan(layer).from_host;
  for (size_t i = 0; i < pulls.size(); ++i) {
    const ExpertId id{layer, pulls[i].expert};
    const int32_t streamer = cluster_.placement().streamer(id);
    if (shares.late[static_cast<size_t>(streamer)]) {
      copies.from_host.push_back(host[i]);
      continue;
    }
    const std::byte* source = channel_.streamer(streamer).address(id, place) + pulls[i].offset;
    (streamer == rank_ ? copies.from_own_window : copies.from_peers)
        .push_back({host[i].destination, source, host[i].size_bytes});
  }
}

Event HybridExperts::copy(Stream& stream, std::span<const CopyRange> copies, Lane lane, int32_t layer) {
  if (spans_ == nullptr || copies.empty()) {
    stream.copy_batch(copies);
    return stream.record();
  }
  Event begin = stream.record(EventTiming::kTimed);
  stream.copy_batch(copies);
  Event end = stream.record(EventTiming::kTimed);
  spans_->add(lane, fmt::format("{} {}", name_of(lane), layer), std::move(begin), end);
  return end;
}

}  // namespace zp
