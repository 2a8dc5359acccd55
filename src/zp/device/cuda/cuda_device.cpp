// Opens GPUs, and their memory.
#include "zp/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <string_view>

#include "zp/base/check.h"
#include "zp/base/error.h"
#include "zp/base/human.h"
#include "zp/device/cuda_entry.h"
#include "zp/device/cuda_requirements.h"

namespace zp {

std::unique_ptr<Device> make_cuda_device(int32_t index) { return std::make_unique<cuda::CudaDevice>(index); }

namespace cuda {
namespace {

// "cudaMalloc" of "cudaMalloc(&data, size_bytes)".
std::string_view name_of(std::string_view call) { return call.substr(0, call.find('(')); }

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// What why_not_usable() asks about. Clears the errors of calls that failed, which are no failures of later ones.
CudaMachine look_at_machine(int32_t index) {
  CudaMachine machine;
  machine.index = index;
  machine.runtime_version = CUDART_VERSION;
  (void)cudaDriverGetVersion(&machine.driver_version);
  const cudaError_t status = cudaGetDeviceCount(&machine.gpus);
  if (status != cudaSuccess) {
    machine.gpus = 0;
    if (status != cudaErrorNoDevice) machine.refusal = cudaGetErrorString(status);
  }
  (void)cudaGetLastError();
  if (index < 0 || index >= machine.gpus) return machine;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, index), index);
  machine.name = properties.name;
  machine.compute_major = properties.major;
  machine.compute_minor = properties.minor;
  return machine;
}

}  // namespace

void throw_cuda_error(cudaError_t status, const char* call, int32_t device) {
  (void)cudaGetLastError();
  const ErrorCode code = status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  fail(code, "{} failed on cuda:{}: {} ({})", name_of(call), device, cudaGetErrorString(status),
       cudaGetErrorName(status));
}

CudaDevice::CudaDevice(int32_t index) : index_(index), events_(std::make_shared<EventPool>(index)) {
  const CudaMachine machine = look_at_machine(index);
  if (const std::string reason = why_not_usable(machine); !reason.empty()) fail(ErrorCode::kUnsupported, "{}", reason);
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, index), index);
  multiprocessors_ = properties.multiProcessorCount;
  description_ = fmt::format("cuda:{} ({}, {}, driver for CUDA {})", index, properties.name,
                             human_bytes(properties.totalGlobalMem), version_text(machine.driver_version));
  bind();
  CUDA_CHECK(cudaFree(nullptr), index);  // makes the context, so that what it takes is not counted as free
}

void CudaDevice::reach_memory_of(Device& other) {
  const auto* peer = dynamic_cast<const CudaDevice*>(&other);
  ZP_CHECK(peer != nullptr, "{} is to reach the memory of {}, which is no GPU", description_, other.description());
  if (peer->index_ == index_) return;
  int can = 0;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&can, index_, peer->index_), index_);
  if (can == 0)
    fail(ErrorCode::kUnsupported,
         "cuda:{} cannot read the memory of cuda:{}: they have neither NVLink nor a PCIe path that allows it. Keep all "
         "experts on every rank (resident) or in host memory, or use one rank",
         index_, peer->index_);
  bind();
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer->index_, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError();
  else
    check(status, "cudaDeviceEnablePeerAccess", index_);
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
  if (kind == MemoryKind::kPinnedHost) {
    std::byte* locked = pinned_.allocate(size_bytes);
    count_allocation(size_bytes, kind);
    return {this, kind, locked, size_bytes};
  }
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, size_bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    const MemoryInfo memory = memory_info();
    fail(ErrorCode::kOutOfMemory, "cuda:{} refused an allocation of {} bytes; {} of its {} bytes are free", index_,
         size_bytes, memory.free_bytes, memory.total_bytes);
  }
  check(status, "cudaMalloc", index_);
  count_allocation(size_bytes, kind);
  return {this, kind, static_cast<std::byte*>(data), size_bytes};
}

void CudaDevice::release(std::byte* data, size_t size_bytes, MemoryKind kind) noexcept {
  count_release(size_bytes, kind);
  (void)cudaSetDevice(index_);
  if (kind == MemoryKind::kPinnedHost)
    pinned_.release(data);
  else
    (void)cudaFree(data);
}

std::unique_ptr<Stream> CudaDevice::create_stream(std::string /*name*/, StreamUse /*use*/) {
  bind();
  return std::make_unique<CudaStream>(index_, events_);
}

}  // namespace cuda
}  // namespace zp
