// Checks and tokenizes what users send, on their own threads.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroprefill/engine.h"
#include "zp/schedule/request.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp {

/// A request that can run.
struct CheckedRequest {
  ScheduleRequest schedule;  ///< without id and arrival time
  std::vector<int32_t> candidates;
  std::optional<int64_t> deadline_ns = {};  ///< from submission
};

/// About what a request takes of host memory from submit to outcome, its result included.
[[nodiscard]] constexpr uint64_t request_bytes(int64_t tokens, int64_t candidates) noexcept {
  // A token's id is kept twice and copied into a step with its position; each block of 16 has a hash (16 bytes), a
  // place in the request's path and a node of the index (some 150 bytes). A candidate is an id, its copy in the step,
  // and two logits.
  constexpr uint64_t kPerRequest = 2048;
  constexpr uint64_t kPerToken = 4 * 4 + (16 + 4 + 150) / 16;
  constexpr uint64_t kPerCandidate = 4 * 4;
  return kPerRequest + kPerToken * static_cast<uint64_t>(tokens) + kPerCandidate * static_cast<uint64_t>(candidates);
}

/// The limits that requests are held against.
struct IntakeLimits {
  int32_t vocabulary = 0;
  int64_t max_request_tokens = 0;
  std::string model_revision;
};

/// Immutable, thread-safe.
class Intake final {
 public:
  /// Without a tokenizer (null), contexts and candidates must be token ids.
  Intake(std::unique_ptr<const Tokenizer> tokenizer, IntakeLimits limits);

  /// Throws kInvalidArgument for a request that can never run, naming the value and the limit.
  [[nodiscard]] CheckedRequest check(const Request& request) const;
  /// See Engine::candidate_token().
  [[nodiscard]] std::optional<int32_t> candidate_token(std::string_view context, std::string_view candidate) const;

 private:
  [[nodiscard]] std::vector<int32_t> tokenize(const Context& context) const;
  [[nodiscard]] std::vector<int32_t> resolve(const Request& request, std::span<const int32_t> context_ids) const;
  [[nodiscard]] std::optional<int32_t> token_after(std::span<const int32_t> context_ids, std::string_view context,
                                                   std::string_view candidate) const;
  /// Throws kInvalidArgument if there is none.
  [[nodiscard]] const Tokenizer& tokenizer() const;
  void require_id(std::string_view what, int32_t id) const;

  std::unique_ptr<const Tokenizer> tokenizer_;
  IntakeLimits limits_;
};

}  // namespace zp
