// Opens GPUs, and their memory.
#include "zp/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <string_view>

#include "zp/base/error.h"
#include "zp/base/human.h"
#include "zp/device/cuda/pinned_memory.h"
#include "zp/device/cuda_entry.h"

namespace zp {

std::unique_ptr<Device> make_cuda_device(int32_t index) { return std::make_unique<cuda::CudaDevice>(index); }

namespace cuda {
namespace {

// Kernels are compiled for this one (wgmma, bulk copies): sm_90a.
constexpr int kMajor = 9;
constexpr int kMinor = 0;

// "cudaMalloc" of "cudaMalloc(&data, size_bytes)".
std::string_view name_of(std::string_view call) { return call.substr(0, call.find('(')); }

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// The number of GPUs. Clears the error of a call that failed, which is no failure of a later one.
int count_devices(int32_t index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count;
  (void)cudaGetLastError();
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  if (driver == 0)
    fail(ErrorCode::kUnsupported, "cannot open cuda:{}: this machine has no NVIDIA driver; use the device 'cpu'",
         index);
  if (status == cudaErrorInsufficientDriver)
    fail(ErrorCode::kUnsupported,
         "cannot open cuda:{}: the driver is for CUDA {}; this build needs one for {} or later", index,
         version_text(driver), version_text(CUDART_VERSION));
  if (status == cudaErrorNoDevice)
    fail(ErrorCode::kUnsupported, "cannot open cuda:{}: this machine has no NVIDIA GPU; use the device 'cpu'", index);
  fail(ErrorCode::kUnsupported, "cannot open cuda:{}: {}", index, cudaGetErrorString(status));
}

}  // namespace

void throw_cuda_error(cudaError_t status, const char* call, int32_t device) {
  (void)cudaGetLastError();
  const ErrorCode code = status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  fail(code, "{} failed on cuda:{}: {} ({})", name_of(call), device, cudaGetErrorString(status),
       cudaGetErrorName(status));
}

CudaDevice::CudaDevice(int32_t index) : index_(index), events_(std::make_shared<EventPool>(index)) {
  const int count = count_devices(index);
  if (index < 0 || index >= count)
    fail(ErrorCode::kUnsupported, "cannot open cuda:{}: this machine has {} GPU(s), counted from 0", index, count);
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, index), index);
  if (properties.major != kMajor || properties.minor != kMinor)
    fail(ErrorCode::kUnsupported,
         "cannot use cuda:{}: {} has compute capability {}.{}; the kernels are for {}.{} (Hopper) alone", index,
         properties.name, properties.major, properties.minor, kMajor, kMinor);
  multiprocessors_ = properties.multiProcessorCount;
  int driver = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver), index);
  description_ = fmt::format("cuda:{} ({}, {}, driver for CUDA {})", index, properties.name,
                             human_bytes(properties.totalGlobalMem), version_text(driver));
  bind();
  CUDA_CHECK(cudaFree(nullptr), index);  // makes the context, so that what it takes is not counted as free
}

MemoryInfo CudaDevice::memory_info() const {
  bind();
  MemoryInfo info;
  CUDA_CHECK(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), index_);
  return info;
}

Buffer CudaDevice::allocate(size_t size_bytes, MemoryKind kind) {
  if (size_bytes == 0) return {};
  bind();
  if (kind == MemoryKind::kPinnedHost) return {this, kind, allocate_pinned(size_bytes, index_), size_bytes};
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, size_bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    const MemoryInfo memory = memory_info();
    fail(ErrorCode::kOutOfMemory, "cuda:{} refused an allocation of {} bytes; {} of its {} bytes are free", index_,
         size_bytes, memory.free_bytes, memory.total_bytes);
  }
  check(status, "cudaMalloc", index_);
  return {this, kind, static_cast<std::byte*>(data), size_bytes};
}

void CudaDevice::release(std::byte* data, size_t size_bytes, MemoryKind kind) noexcept {
  (void)cudaSetDevice(index_);
  if (kind == MemoryKind::kPinnedHost)
    release_pinned(data, size_bytes);
  else
    (void)cudaFree(data);
}

std::unique_ptr<Stream> CudaDevice::create_stream(std::string /*name*/, StreamUse /*use*/) {
  bind();
  return std::make_unique<CudaStream>(index_, events_);
}

}  // namespace cuda
}  // namespace zp
