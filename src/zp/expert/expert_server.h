// Computes with a rank's own experts for other ranks, which send it activations: the owner's half of
// StepMode::kSendActivations.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "zp/base/bounded_queue.h"
#include "zp/device/device.h"
#include "zp/device/span_log.h"
#include "zp/expert/cluster.h"
#include "zp/ops/ops.h"
#include "zp/tensor/tensor.h"

namespace zp {

/// What has become of a job. Set once by the server, read by the sender.
class JobTicket final {
 public:
  struct Done {
    Event computed;  ///< timed; from here on only the way back is waited for
    Event arrived;   ///< the results are in the sender's memory
  };
  /// Blocks until the job has been issued, not until it has run. Throws why it was not.
  [[nodiscard]] Done wait();
  void set(Done done);
  void fail(std::exception_ptr failure);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Done> done_;    // guarded by mutex_
  std::exception_ptr failure_;  // guarded by mutex_
};

/// Rows of one layer for experts that the server's rank holds. All memory is the sender's and lives until the ticket's
/// events are done.
struct ExpertJob {
  int32_t layer = 0;
  int64_t rows = 0;
  const std::byte* x = nullptr;      // [rows, H] A
  const int32_t* experts = nullptr;  // [rows], in host memory: the expert of each row
  std::byte* results = nullptr;      // [rows, H] f32: each expert's result, neither weighted nor summed
  std::optional<Event> rows_ready;   // on the sender's stream: x is there
  std::shared_ptr<JobTicket> ticket;
};

struct ExpertServerSpec {
  int32_t rank = 0;
  int64_t job_rows = 0;  ///< the most rows of a job
  ExpertSize size;
};

/// Owns a thread that issues jobs in the order they come, streams of its own, and room for two jobs: one is pulled
/// while the other computes. Serves whether or not its rank has a step. Results are f32, so that the sender's sum has
/// the bits that Ops::moe() gives.
class ExpertServer final {
 public:
  /// All outlive it; `ops` is used by nobody else; `spans` may be null. Begins at once.
  struct Parts {
    const ExpertCluster& cluster;
    Device& device;
    Ops& ops;
    SpanLog* spans = nullptr;
  };
  ExpertServer(const Parts& parts, const ExpertServerSpec& spec);
  /// Jobs that it was given are done first.
  ~ExpertServer();
  ExpertServer(const ExpertServer&) = delete;
  ExpertServer& operator=(const ExpertServer&) = delete;

  /// Any thread. Blocks while many jobs are waiting. The ticket is set or fails in the end, whatever happens.
  void submit(ExpertJob job);
  /// The rank runs nothing any more: jobs fail with this cause from now on. Any thread.
  void abandon(const std::exception_ptr& failure);
  /// Nothing has failed so far. Any thread.
  [[nodiscard]] bool is_alive() const;
  [[nodiscard]] int32_t rank() const noexcept { return spec_.rank; }
  [[nodiscard]] int64_t job_rows() const noexcept { return spec_.job_rows; }

  /// Bytes of the buffers that a server allocates, without those of its operations.
  [[nodiscard]] static uint64_t buffer_bytes(const ExpertServerSpec& spec, DType activation);

 private:
  /// Room for one job.
  struct Place {
    Tensor x;        // [job_rows, H] A
    Tensor experts;  // [job_rows, 1] i32
    Tensor out;      // [job_rows, H] f32
    std::optional<Event> done;
  };
  void run();
  void serve(const ExpertJob& job);
  [[nodiscard]] JobTicket::Done issue(const ExpertJob& job);
  [[noreturn]] void refuse(const std::exception_ptr& failure) const;

  static constexpr size_t kJobsMax = 64;

  const ExpertServerSpec spec_;
  Ops& ops_;
  SpanLog* spans_;
  std::vector<std::vector<const std::byte*>> experts_;  // [layers][E], null where another rank holds it
  std::array<Place, 2> places_;                         // the server thread's, as the streams are
  size_t next_place_ = 0;
  Tensor ones_;  // [job_rows, 1] f32
  mutable std::mutex mutex_;
  std::exception_ptr failure_;  // guarded by mutex_
  std::optional<Event> last_;   // guarded by mutex_; the end of the latest job
  BoundedQueue<ExpertJob> queue_{kJobsMax};
  std::unique_ptr<Stream> pull_stream_;
  std::unique_ptr<Stream> compute_stream_;
  std::unique_ptr<Stream> push_stream_;
  std::thread thread_;
};

}  // namespace zp
