// Barriers and handshakes.
#include "zp/parallel/cpu/meeting.h"

#include <fmt/format.h>

#include "zp/base/error.h"

namespace zp::cpu {
namespace {

std::string message_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace

void Meeting::throw_if_failed() const {
  if (failed_) fail(ErrorCode::kDevice, "{}", failure_);
}

void Meeting::barrier() {
  std::unique_lock lock(mutex_);
  throw_if_failed();
  const uint64_t generation = generation_;
  if (++arrived_ == ranks_) {
    arrived_ = 0;
    ++generation_;
    lock.unlock();
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return generation_ != generation || failed_; });
  // A barrier that all have reached holds, even if somebody failed right after.
  if (generation_ == generation) throw_if_failed();
}

void Meeting::send(const Pair& pair, const ConstTensorView& data) {
  std::unique_lock lock(mutex_);
  throw_if_failed();
  Mail& mail = mail_[pair];
  mail = {data, true};
  changed_.notify_all();
  changed_.wait(lock, [&] { return !mail.full || failed_; });
  if (mail.full) throw_if_failed();
}

ConstTensorView Meeting::begin_receive(const Pair& pair) {
  std::unique_lock lock(mutex_);
  Mail& mail = mail_[pair];
  changed_.wait(lock, [&] { return mail.full || failed_; });
  throw_if_failed();
  return mail.data;
}

void Meeting::end_receive(const Pair& pair) {
  {
    const std::lock_guard lock(mutex_);
    mail_[pair].full = false;
  }
  changed_.notify_all();
}

void Meeting::abort(int32_t rank, const std::exception_ptr& cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failed_ = true;
    try {
      failure_ = fmt::format("rank {} of the group failed: {}", rank, message_of(cause));
    } catch (...) {
      failure_.clear();  // out of memory: the failure counts, its text is lost
    }
  }
  changed_.notify_all();
}

}  // namespace zp::cpu
