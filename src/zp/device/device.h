// What every backend offers: memory, ordered asynchronous work (Stream) and points in that work (Event).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace zp {

/// Where a Device computes.
enum class DeviceKind : uint8_t { kCpu, kCuda };

/// Whose memory a Buffer is. On a CPU device both are the same memory.
enum class MemoryKind : uint8_t {
  kDevice,      ///< The device's own memory.
  kPinnedHost,  ///< Host memory that the device's copy engines reach asynchronously.
};

/// Bytes of device memory: all of it, and what is free now.
struct MemoryInfo {
  size_t total_bytes = 0;
  size_t free_bytes = 0;
};

class Device;

/// Owns one allocation. Movable; frees on destruction. Contents start undefined.
class Buffer final {
 public:
  Buffer() = default;
  Buffer(Device* device, MemoryKind kind, std::byte* data, size_t size_bytes) noexcept
      : device_(device), kind_(kind), data_(data), size_bytes_(size_bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] size_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_bytes_}; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
  }

  Device* device_ = nullptr;
  MemoryKind kind_ = MemoryKind::kDevice;
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

/// What a point in a stream's work has come to.
enum class EventStatus : uint8_t { kPending, kDone, kFailed };

/// The backend's half of an Event. Shared by every copy of the event; thread-safe.
class EventState {
 public:
  virtual ~EventState() = default;
  /// Never blocks.
  [[nodiscard]] virtual EventStatus status() const = 0;
  /// Blocks the calling thread until the point is reached. Throws the failure that poisoned it.
  virtual void wait() const = 0;
  /// See Event::reached_ns().
  [[nodiscard]] virtual std::optional<int64_t> reached_ns() const = 0;
};

/// A point in a stream's work: a cheap value. Only Stream::record() makes one.
class Event final {
 public:
  [[nodiscard]] EventStatus status() const { return state_->status(); }
  /// Blocks the calling thread; throws the failure of any act before the point, as zp::Error.
  void wait() const { state_->wait(); }
  /// When the point was reached, in nanoseconds of SteadyClock. Empty unless the event was recorded with
  /// EventTiming::kTimed and is done. Never blocks.
  [[nodiscard]] std::optional<int64_t> reached_ns() const { return state_->reached_ns(); }
  /// For the backend that made the event.
  [[nodiscard]] const EventState& state() const noexcept { return *state_; }
  [[nodiscard]] const std::shared_ptr<const EventState>& shared_state() const noexcept { return state_; }

 private:
  friend class Stream;
  explicit Event(std::shared_ptr<const EventState> state) : state_(std::move(state)) {}

  std::shared_ptr<const EventState> state_;
};

/// Whether an event keeps the time at which it was reached. Untimed events cost a GPU less.
enum class EventTiming : uint8_t { kUntimed, kTimed };

/// One copy of a batch. Both ranges must live until the copy has run.
struct CopyRange {
  void* destination = nullptr;
  const void* source = nullptr;
  size_t size_bytes = 0;
};

/// What a stream is for: on the CPU it decides which of the device's links its copies go over.
enum class StreamUse : uint8_t {
  kCompute,   ///< operations, and copies within the device
  kPeerLink,  ///< copies from other devices' memory
  kHostLink,  ///< copies from host memory
};

/// Acts that run in the order they were issued, asynchronously to the host. One host thread issues at a time.
/// A failed act poisons the stream: later acts are skipped, events recorded after it fail, and so does what waits
/// on them; synchronize() throws the first failure.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Copies between any two memories that the device reaches. Both ranges must live until the act has run.
  virtual void copy(void* destination, const void* source, size_t size_bytes) = 0;
  /// Copies all ranges, in their order. The list itself must live, unchanged, until the act has run.
  virtual void copy_batch(std::span<const CopyRange> copies) = 0;
  /// Sets every byte of a range that must live until the act has run.
  virtual void fill(void* destination, std::byte value, size_t size_bytes) = 0;
  /// Marks this point in the work.
  [[nodiscard]] Event record(EventTiming timing = EventTiming::kUntimed) { return Event(record_state(timing)); }
  /// Makes all acts issued after this call wait for `event`, without blocking the host.
  virtual void wait(const Event& event) = 0;
  /// Blocks the host until all acts issued so far have run; throws the stream's first failure.
  virtual void synchronize() = 0;

 protected:
  Stream() = default;
  virtual std::shared_ptr<const EventState> record_state(EventTiming timing) = 0;
};

/// One compute device. Thread-safe. Outlives its streams and buffers.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual DeviceKind kind() const noexcept = 0;
  /// For people: "cpu: 2 threads, amx_bf16".
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual MemoryInfo memory_info() const = 0;
  /// 256-byte aligned, uninitialised. Throws kOutOfMemory with the size asked for. Zero bytes give an empty buffer.
  [[nodiscard]] virtual Buffer allocate(size_t size_bytes, MemoryKind kind = MemoryKind::kDevice) = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> create_stream(std::string name,
                                                              StreamUse use = StreamUse::kCompute) = 0;
  /// Lets this device's streams copy from the memory of `other`, a device of the same kind, without a detour through
  /// the host. Throws kUnsupported with the reason where the hardware cannot. To do it twice changes nothing.
  virtual void reach_memory_of(Device& other) = 0;
  /// Allocations made so far, of both kinds of memory; to see that steps make none.
  [[nodiscard]] int64_t allocations() const noexcept { return allocations_.load(); }
  /// Bytes of living buffers, to hold memory plans against.
  [[nodiscard]] size_t allocated_bytes(MemoryKind kind) const noexcept {
    return allocated_bytes_[static_cast<size_t>(kind)].load();
  }

 protected:
  Device() = default;
  /// For allocate(), when there is a buffer.
  void count_allocation(size_t size_bytes, MemoryKind kind) noexcept {
    ++allocations_;
    allocated_bytes_[static_cast<size_t>(kind)] += size_bytes;
  }
  /// For release().
  void count_release(size_t size_bytes, MemoryKind kind) noexcept {
    allocated_bytes_[static_cast<size_t>(kind)] -= size_bytes;
  }

 private:
  friend class Buffer;
  virtual void release(std::byte* data, size_t size_bytes, MemoryKind kind) noexcept = 0;

  std::atomic<int64_t> allocations_{0};
  std::array<std::atomic<size_t>, 2> allocated_bytes_{};  // by MemoryKind
};

inline Buffer::~Buffer() {
  if (data_ != nullptr) device_->release(data_, size_bytes_, kind_);
}

}  // namespace zp
