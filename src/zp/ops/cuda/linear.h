// Dense products through cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>

#include "zp/device/cuda/cuda_device.h"
#include "zp/device/cuda/handle.h"
#include "zp/ops/cuda/kernels.h"

namespace zp::cuda {

/// out = x * weight^T with f32 sums, or out += that. One algorithm for each (n, k, type of out), whatever the number of
/// tokens, and none that splits k, so that a row's bits do not depend on how many rows there are.
class Linear final {
 public:
  explicit Linear(CudaDevice& device);

  struct Args {
    const Bits16* x = nullptr;       // [tokens, k]
    const Bits16* weight = nullptr;  // [n, k]
    void* out = nullptr;             // [tokens, n] f32 or bf16
    bool out_is_f32 = true;
    bool add = false;  // out is f32; the sum of a product is added to it when it is complete
    int64_t tokens = 0;
    int64_t n = 0;
    int64_t k = 0;
  };
  /// Called within CudaStream::act().
  void run(const CudaStream& stream, const Args& args);

  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  /// The most tokens of one product of cuBLASLt's; run() makes several of more.
  static constexpr int64_t kTokensMax = 65536;

 private:
  struct Shape {
    int64_t n = 0;
    int64_t k = 0;
    bool out_is_f32 = true;
    auto operator<=>(const Shape&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
  };
  /// How a shape is computed; by the plain kernel if cuBLASLt has no algorithm for it.
  struct Choice {
    bool has_algorithm = false;
    cublasLtMatmulAlgo_t algorithm{};
  };
  void run_part(const CudaStream& stream, const Args& args);
  [[nodiscard]] Choice choose(const Shape& shape) const;
  const Choice& find(const Shape& shape);

  int32_t device_;
  Handle<cublasLtHandle_t, &cublasLtDestroy> handle_;
  Handle<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy> operation_;
  Buffer workspace_;
  std::map<Shape, Choice> choices_;
};

}  // namespace zp::cuda
