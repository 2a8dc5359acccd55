// What ranks of a group do together: one interface for virtual ranks (threads of a process) and, later, NCCL.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "zp/device/device.h"
#include "zp/parallel/traffic.h"
#include "zp/tensor/tensor_view.h"

namespace zp {

/// A tensor whose rows belong to the ranks, in their order: first rows[0] of rank 0, then rows[1] of rank 1, ...
struct PartedRows {
  TensorView data;                // [sum of rows, H] f32 or bf16, or [sum of rows, k] i32
  std::span<const int64_t> rows;  // [ranks], the same on every rank
};

/// Rows to and from each rank, in order of ranks.
struct AllToAllArgs {
  ConstTensorView in;                     // [sum of send_rows, H]
  std::span<const int64_t> send_rows;     // [ranks] to each
  TensorView out;                         // [sum of receive_rows, H]; not the memory of `in`
  std::span<const int64_t> receive_rows;  // [ranks] from each: what that rank sends here
};

/// One rank's handle of a group. Its own thread issues; acts run on the rank's stream, in order, and wait there until
/// all ranks of the group have come. Every rank must issue the same collectives in the same order, with shapes that
/// fit. Data, spans and views live, unchanged, until the act has run. Sums are of all ranks in the order of their
/// numbers, so results do not depend on who came first; they are made in f32 and rounded once.
class Collectives {
 public:
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  [[nodiscard]] virtual int32_t rank() const noexcept = 0;
  [[nodiscard]] virtual int32_t ranks() const noexcept = 0;

  /// In place: each rank's own rows are there; afterwards all are.
  virtual void all_gather(Stream& stream, const PartedRows& parts, const TrafficTag& tag) = 0;
  /// In place: each rank's own rows become their sum over all ranks; the other rows keep this rank's addends.
  virtual void reduce_scatter(Stream& stream, const PartedRows& parts, const TrafficTag& tag) = 0;
  /// In place: every element becomes its sum over all ranks.
  virtual void all_reduce(Stream& stream, const TensorView& data, const TrafficTag& tag) = 0;
  virtual void all_to_all(Stream& stream, const AllToAllArgs& args, const TrafficTag& tag) = 0;
  /// The sender's act ends when the receiver has the data. Pairs meet in the order in which they are issued.
  virtual void send(Stream& stream, const ConstTensorView& data, int32_t to, const TrafficTag& tag) = 0;
  virtual void receive(Stream& stream, const TensorView& data, int32_t from, const TrafficTag& tag) = 0;

  /// This rank does nothing more, because of `cause`. All acts of the group that wait, and all later ones, fail with
  /// kDevice and the first such cause: nobody hangs. Any thread.
  virtual void abort(const std::exception_ptr& cause) noexcept = 0;
  [[nodiscard]] virtual const TrafficLog& traffic() const noexcept = 0;

 protected:
  Collectives() = default;
};

/// What the link of each virtual rank can do; zero means no limit of its own.
struct LinkPace {
  uint64_t bytes_per_second = 0;  ///< in each direction
  int64_t latency_ns = 0;         ///< of each step of a ring, and of each send
};

struct CollectivesSpec {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t ranks = 1;
  int32_t layers = 1;  ///< of the model, for the counts
  LinkPace pace;       ///< CPU: a collective takes no less than its ring would on such links
};

/// One handle for each rank of a new group. Throws kUnsupported for devices other than the CPU (NCCL comes later).
[[nodiscard]] std::vector<std::unique_ptr<Collectives>> make_collectives(const CollectivesSpec& spec);

}  // namespace zp
