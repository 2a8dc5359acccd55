// Reads, uploads and hands over, lane by lane.
#include "zp/model/load_lanes.h"

#include <algorithm>
#include <exception>

#include "zp/base/error.h"
#include "zp/base/math.h"

namespace zp {
namespace {

constexpr size_t kPiecesOfLane = 2;
constexpr size_t kAlignment = 256;

LoadLanesSpec bounded(LoadLanesSpec spec) {
  spec.threads = std::clamp(spec.threads, 1, LoadLanes::kMaxLanes);
  spec.blob_bytes = round_up(spec.blob_bytes, kAlignment);
  spec.piece_bytes = round_up(spec.piece_bytes, kAlignment);
  return spec;
}

}  // namespace

size_t LoadLanes::pinned_bytes(const LoadLanesSpec& spec) {
  const LoadLanesSpec s = bounded(spec);
  return static_cast<size_t>(s.threads) * kPiecesOfLane * s.piece_bytes;
}

size_t LoadLanes::device_bytes(const LoadLanesSpec& spec) {
  const LoadLanesSpec s = bounded(spec);
  return static_cast<size_t>(s.threads) * (kPiecesOfLane * s.piece_bytes + s.blob_bytes);
}

LoadLanes::LoadLanes(Device& device, DevicePacking& packing, const LoadLanesSpec& spec)
    : packing_(packing),
      spec_(bounded(spec)),
      pinned_(device.allocate(pinned_bytes(spec_), MemoryKind::kPinnedHost)),
      on_device_(device.allocate(device_bytes(spec_))),
      lanes_(static_cast<size_t>(spec_.threads)),
      pool_(spec_.threads) {
  std::byte* pinned = pinned_.data();
  std::byte* on_device = on_device_.data();
  for (Lane& lane : lanes_) {
    lane.stream_ = device.create_stream("load", StreamUse::kHostLink);
    lane.piece_bytes_ = spec_.piece_bytes;
    lane.read_bytes_ = &read_bytes_;
    for (Lane::Piece& piece : lane.pieces_) {
      piece.pinned = pinned;
      piece.device = on_device;
      pinned += spec_.piece_bytes;
      on_device += spec_.piece_bytes;
    }
    lane.blob_ = on_device;
    on_device += spec_.blob_bytes;
  }
}

int64_t LoadLanes::rows_of_piece(size_t row_bytes) const {
  return std::max<int64_t>(1, static_cast<int64_t>(spec_.piece_bytes / std::max<size_t>(1, row_bytes)));
}

void LoadLanes::run(int64_t count, const std::function<void(int64_t index, Lane& lane)>& job) {
  std::exception_ptr failure;
  try {
    pool_.parallel_for(count, [&](int64_t i, int32_t thread) { job(i, lanes_[static_cast<size_t>(thread)]); });
  } catch (...) {
    failure = std::current_exception();
  }
  // Whatever failed, nothing may still be writing to memory that the caller is about to free.
  for (Lane& lane : lanes_) {
    try {
      lane.stream_->synchronize();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void LoadLanes::Lane::bring(const Checkpoint& checkpoint, const MatrixPart& part, IndexRange rows, const Use& use) {
  const ConstTensorView stored = checkpoint.tensor(part.name, part.whole);
  const size_t element = size_of(stored.dtype());
  const size_t row_bytes = static_cast<size_t>(row_elements(part)) * element;
  if (row_bytes > piece_bytes_)
    fail(ErrorCode::kUnsupported, "tensor '{}' has rows of {} bytes; the limit is {}", part.name, row_bytes,
         piece_bytes_);
  if (row_bytes == 0) return;
  const auto rows_max = static_cast<int32_t>(std::min<size_t>(piece_bytes_ / row_bytes, INT32_MAX));
  for (int32_t row = rows.begin; row < rows.end(); row += rows_max) {
    const int32_t count = std::min(rows_max, rows.end() - row);
    const size_t bytes = static_cast<size_t>(count) * row_bytes;
    Piece& piece = pieces_[next_];
    next_ = (next_ + 1) % pieces_.size();
    if (piece.used) piece.used->wait();
    checkpoint.read(part.name, static_cast<uint64_t>(part.rows.begin + row) * row_bytes, {piece.pinned, bytes});
    *read_bytes_ += bytes;
    stream_->copy(piece.device, piece.pinned, bytes);
    use({.data = piece.device + static_cast<size_t>(part.columns.begin) * element,
         .dtype = stored.dtype(),
         .rows = count,
         .columns = part.columns.count,
         .stride = row_elements(part)},
        row);
    piece.used = stream_->record();
  }
}

}  // namespace zp
