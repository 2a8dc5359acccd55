// How stored weights get onto a device that packs them itself: as fast as files, host memory and the link allow.
//
//   file ──pread──► pinned piece ──copy engine──► piece on the device ──kernel──► weights
//
// Each lane is a thread with a stream and two pieces, so that it reads one while the other is on its way; lanes are
// independent. Memory is taken once, whatever the model's size.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "zp/base/thread_pool.h"
#include "zp/device/device.h"
#include "zp/model/checkpoint.h"
#include "zp/model/matrix_part.h"
#include "zp/ops/device_packing.h"

namespace zp {

struct LoadLanesSpec {
  int32_t threads = 1;                   ///< lanes, at most kMaxLanes
  size_t blob_bytes = 0;                 ///< of an expert that is packed for host memory; 0: none is
  size_t piece_bytes = size_t{8} << 20;  ///< the most that is read at a time
};

/// One at a time calls run().
class LoadLanes final {
 public:
  static constexpr int32_t kMaxLanes = 16;

  /// Takes its memory from `device`, whose Ops has `packing`; both outlive it.
  LoadLanes(Device& device, DevicePacking& packing, const LoadLanesSpec& spec);

  /// For the memory plan.
  [[nodiscard]] static size_t pinned_bytes(const LoadLanesSpec& spec);
  [[nodiscard]] static size_t device_bytes(const LoadLanesSpec& spec);

  /// A thread's own, for as long as a job runs on it.
  class Lane final {
   public:
    [[nodiscard]] Stream& stream() noexcept { return *stream_; }
    /// [blob_bytes] device memory for an expert on its way to the host; acts on stream() take turns with it.
    [[nodiscard]] std::byte* blob() noexcept { return blob_; }

    /// Receives rows in device memory, and which row of the part the first one is; issues what uses them on stream().
    using Use = std::function<void(const StoredRows& rows, int64_t first)>;
    /// Reads rows [begin, end) of a part piece by piece. Throws as Checkpoint::tensor() and read() do, and kUnsupported
    /// for rows longer than a piece.
    void bring(const Checkpoint& checkpoint, const MatrixPart& part, IndexRange rows, const Use& use);
    void bring(const Checkpoint& checkpoint, const MatrixPart& part, const Use& use) {
      bring(checkpoint, part, {0, part.rows.count}, use);
    }

   private:
    friend class LoadLanes;
    struct Piece {
      std::byte* pinned = nullptr;
      std::byte* device = nullptr;
      std::optional<Event> used;  // when both may be written again
    };
    std::unique_ptr<Stream> stream_;
    std::array<Piece, 2> pieces_;
    size_t next_ = 0;
    size_t piece_bytes_ = 0;
    std::byte* blob_ = nullptr;
    std::atomic<uint64_t>* read_bytes_ = nullptr;
  };

  /// Runs `job(index, lane)` for each index in [0, count), on all lanes. Blocks until everything issued has run; then
  /// throws the first failure.
  void run(int64_t count, const std::function<void(int64_t index, Lane& lane)>& job);

  [[nodiscard]] DevicePacking& packing() noexcept { return packing_; }
  /// Rows that fit into a piece if one has `row_bytes`, at least 1: a good size of jobs.
  [[nodiscard]] int64_t rows_of_piece(size_t row_bytes) const;
  /// Of files, since it was made.
  [[nodiscard]] uint64_t read_bytes() const noexcept { return read_bytes_; }

 private:
  DevicePacking& packing_;
  LoadLanesSpec spec_;
  std::atomic<uint64_t> read_bytes_{0};
  Buffer pinned_;
  Buffer on_device_;
  std::vector<Lane> lanes_;
  ThreadPool pool_;
};

}  // namespace zp
