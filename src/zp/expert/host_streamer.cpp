// Streams shares.
#include "zp/expert/host_streamer.h"

#include <fmt/format.h>

#include <algorithm>

namespace zp {
namespace {

// One share is copied while the next one's copies are already issued, so that the link does not rest in between.
constexpr size_t kInFlightMax = 2;
// A wait no longer than it takes to look is none.
constexpr int64_t kLookNs = 50'000;

}  // namespace

HostStreamer::HostStreamer(const ExpertCluster& cluster, ExpertWindow& window, Device& device,
                           const HostStreamerSpec& spec, SpanLog* spans)
    : window_(window),
      spec_(spec),
      spans_(spans),
      index_(static_cast<size_t>(cluster.placement().layers())),
      blob_bytes_(cluster.blob_bytes()),
      place_bytes_(static_cast<size_t>(cluster.placement().share_max(spec.rank)) * blob_bytes_),
      buffer_(device.allocate(place_bytes_ * static_cast<size_t>(spec.depth))),
      stream_(device.create_stream("host", StreamUse::kHostLink)) {
  const Placement& placement = cluster.placement();
  const auto streamed = placement.streamed_layers();
  cycle_.assign(streamed.begin(), streamed.end());
  for (const int32_t l : cycle_) {
    std::vector<int32_t>& index = index_[static_cast<size_t>(l)];
    index.assign(static_cast<size_t>(placement.experts()), -1);
    auto& copies = copies_.emplace_back(static_cast<size_t>(spec.depth));
    int32_t count = 0;
    for (int32_t e = 0; e < placement.experts(); ++e) {
      if (placement.streamer({l, e}) != spec.rank) continue;
      const std::byte* source = cluster.address({l, e}, spec.rank);
      const size_t offset = static_cast<size_t>(count) * blob_bytes_;
      index[static_cast<size_t>(e)] = count++;
      for (size_t place = 0; place < copies.size(); ++place)
        for (size_t begin = 0; begin < blob_bytes_; begin += spec.slice_bytes)
          copies[place].push_back({buffer_.data() + place * place_bytes_ + offset + begin, source + begin,
                                   std::min(spec.slice_bytes, blob_bytes_ - begin)});
    }
  }
  thread_ = std::thread([this] { run(); });
}

HostStreamer::~HostStreamer() { thread_.join(); }

const std::byte* HostStreamer::address(ExpertId id, int32_t place) const {
  const std::vector<int32_t>& index = index_.at(static_cast<size_t>(id.layer));
  const int32_t at = index.empty() ? -1 : index.at(static_cast<size_t>(id.expert));
  if (at < 0) return nullptr;
  return buffer_.data() + static_cast<size_t>(place) * place_bytes_ + static_cast<size_t>(at) * blob_bytes_;
}

void HostStreamer::run() {
  try {
    stream_shares();
  } catch (...) {
    window_.fail(std::current_exception());
  }
}

void HostStreamer::stream_shares() {
  std::deque<InFlight> in_flight;
  while (true) {
    std::optional<ExpertWindow::Room> room;
    if (in_flight.empty()) {
      idle_ = true;
      room = window_.await_room(spec_.rank);
      idle_ = false;
      if (!room) return;
    } else if (in_flight.size() < kInFlightMax) {
      room = window_.try_room(spec_.rank);
    }
    if (room)
      in_flight.push_back(issue(*room));
    else
      publish_oldest(in_flight);
  }
}

HostStreamer::InFlight HostStreamer::issue(const ExpertWindow::Room& room) {
  const auto number = static_cast<size_t>(room.turn) % cycle_.size();
  const auto place = static_cast<size_t>(window_.place_of(room.turn));
  // A share may go only when every rank has pulled what lay in its place.
  for (const Event& pulled : room.own_pulls) stream_->wait(pulled);
  Event own_pulls_done = stream_->record(EventTiming::kTimed);
  for (const Event& pulled : room.peer_pulls) stream_->wait(pulled);
  Event peer_pulls_done = stream_->record(EventTiming::kTimed);
  if (spec_.poison) stream_->fill(buffer_.data() + place * place_bytes_, std::byte{0xFF}, place_bytes_);
  stream_->copy_batch(copies_[number][place]);
  Event ready = stream_->record(EventTiming::kTimed);
  if (spans_ != nullptr) spans_->add(Lane::kHost, fmt::format("host {}", cycle_[number]), peer_pulls_done, ready);
  return {room.turn, std::move(own_pulls_done), std::move(peer_pulls_done), std::move(ready)};
}

void HostStreamer::publish_oldest(std::deque<InFlight>& in_flight) {
  const InFlight& oldest = in_flight.front();
  oldest.ready.wait();
  const int64_t own_ns = *oldest.own_pulls_done.reached_ns();
  const int64_t peers_ns = *oldest.peer_pulls_done.reached_ns();
  window_.publish(spec_.rank, oldest.turn, peers_ns - own_ns > kLookNs ? peers_ns : 0);
  in_flight.pop_front();
}

}  // namespace zp
