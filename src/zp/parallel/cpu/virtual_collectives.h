// Collectives between virtual ranks, by reading each other's memory.
#pragma once

#include <memory>
#include <vector>

#include "zp/parallel/collectives.h"
#include "zp/parallel/cpu/meeting.h"

namespace zp::cpu {

class VirtualCollectives final : public Collectives {
 public:
  VirtualCollectives(std::shared_ptr<Meeting> meeting, int32_t rank, const CollectivesSpec& spec)
      : meeting_(std::move(meeting)), rank_(rank), pace_(spec.pace), traffic_(spec.layers) {}

  [[nodiscard]] int32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] int32_t ranks() const noexcept override { return meeting_->ranks(); }

  void all_gather(Stream& stream, const PartedRows& parts, const TrafficTag& tag) override;
  void reduce_scatter(Stream& stream, const PartedRows& parts, const TrafficTag& tag) override;
  void all_reduce(Stream& stream, const TensorView& data, const TrafficTag& tag) override;
  void all_to_all(Stream& stream, const AllToAllArgs& args, const TrafficTag& tag) override;
  void send(Stream& stream, const ConstTensorView& data, int32_t to, const TrafficTag& tag) override;
  void receive(Stream& stream, const TensorView& data, int32_t from, const TrafficTag& tag) override;

  void abort(const std::exception_ptr& cause) noexcept override { meeting_->abort(rank_, cause); }
  [[nodiscard]] const TrafficLog& traffic() const noexcept override { return traffic_; }

 private:
  struct Call;
  void run_all_to_all(Call& call, const AllToAllArgs& args) const;

  std::shared_ptr<Meeting> meeting_;
  const int32_t rank_;
  const LinkPace pace_;
  TrafficLog traffic_;
};

/// The handles of a new group, by rank.
[[nodiscard]] std::vector<std::unique_ptr<Collectives>> make_virtual_collectives(const CollectivesSpec& spec);

}  // namespace zp::cpu
