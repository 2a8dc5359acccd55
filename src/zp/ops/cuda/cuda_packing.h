// Packing on the GPU.
#pragma once

#include "zp/device/cuda/cuda_device.h"
#include "zp/ops/device_packing.h"

namespace zp::cuda {

/// Has no state of its own: any number of threads may pack at once.
class CudaPacking final : public DevicePacking {
 public:
  explicit CudaPacking(CudaDevice& device) : device_(device) {}

  [[nodiscard]] PackedMatrix make_matrix(int64_t n, int64_t k) override;
  void pack_rows(Stream& stream, const StoredRows& rows, const MatrixRowsArgs& args) override;
  void convert_rows(Stream& stream, const StoredRows& rows, const TensorView& out) override;
  void begin_expert(Stream& stream, const ExpertSize& size, std::byte* blob) override;
  void pack_expert_rows(Stream& stream, const StoredRows& rows, const ExpertRowsArgs& args) override;

 private:
  CudaDevice& device_;
};

}  // namespace zp::cuda
