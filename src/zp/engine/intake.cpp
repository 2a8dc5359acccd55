// Checks and tokenizes requests.
#include "zp/engine/intake.h"

#include <algorithm>

#include "zp/base/error.h"
#include "zp/base/excerpt.h"
#include "zp/engine/setup.h"

namespace zp {
namespace {

// One that counts twice would have more than its share, and all of them more than the vocabulary.
void require_distinct(std::span<const int32_t> candidates) {
  std::vector<int32_t> sorted(candidates.begin(), candidates.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return;
  const auto first = std::ranges::find(candidates, *twice);
  const auto second = std::find(first + 1, candidates.end(), *twice);
  fail(ErrorCode::kInvalidArgument, "candidates {} and {} are the same token, {}; they must be distinct",
       first - candidates.begin(), second - candidates.begin(), *twice);
}

}  // namespace

Intake::Intake(std::unique_ptr<const Tokenizer> tokenizer, IntakeLimits limits)
    : tokenizer_(std::move(tokenizer)), limits_(std::move(limits)) {
  if (tokenizer_ != nullptr && tokenizer_->size() > limits_.vocabulary)
    fail(ErrorCode::kCorrupt, "the tokenizer has {} tokens, the model's vocabulary only {}", tokenizer_->size(),
         limits_.vocabulary);
}

CheckedRequest Intake::check(const Request& request) const {
  CheckedRequest checked;
  checked.schedule.tokens = tokenize(request.context);
  const auto length = static_cast<int64_t>(checked.schedule.tokens.size());
  if (length == 0) fail(ErrorCode::kInvalidArgument, "the context is empty; it must have at least one token");
  if (length > limits_.max_request_tokens)
    fail(ErrorCode::kInvalidArgument, "the context has {} tokens; the limit is {}", length, limits_.max_request_tokens);
  checked.candidates = resolve(request, checked.schedule.tokens);
  checked.schedule.cache_namespace = to_string(
      CacheNamespace{.model_revision = limits_.model_revision, .adapter = "", .cache_salt = request.cache_salt});
  checked.schedule.chain = BlockChain(checked.schedule.cache_namespace, checked.schedule.tokens);
  checked.schedule.priority = request.priority;
  if (request.deadline_ms) {
    if (*request.deadline_ms < 0 || *request.deadline_ms > kDeadlineMsMax)
      fail(ErrorCode::kInvalidArgument, "deadline_ms is {}; it must lie in [0, {}]", *request.deadline_ms,
           kDeadlineMsMax);
    checked.deadline_ns = *request.deadline_ms * 1'000'000;
  }
  return checked;
}

const Tokenizer& Intake::tokenizer() const {
  if (tokenizer_ == nullptr)
    fail(ErrorCode::kInvalidArgument,
         "the model has no tokenizer: give token ids instead of text, or the folder of a tokenizer");
  return *tokenizer_;
}

void Intake::require_id(std::string_view what, int32_t id) const {
  if (id < 0 || id >= limits_.vocabulary)
    fail(ErrorCode::kInvalidArgument, "{} is token {}; ids lie in [0, {})", what, id, limits_.vocabulary);
}

std::vector<int32_t> Intake::tokenize(const Context& context) const {
  if (const auto* text = std::get_if<std::string>(&context)) return tokenizer().encode(*text);
  const auto& ids = std::get<std::vector<int32_t>>(context);
  for (size_t i = 0; i < ids.size(); ++i) require_id(fmt::format("element {} of the context", i), ids[i]);
  return ids;
}

std::vector<int32_t> Intake::resolve(const Request& request, std::span<const int32_t> context_ids) const {
  const auto count = static_cast<int64_t>(request.candidates.size());
  if (count < 1 || count > kCandidatesMax)
    fail(ErrorCode::kInvalidArgument, "a request has {} candidates; it must have 1 to {}", count, kCandidatesMax);
  const auto* context = std::get_if<std::string>(&request.context);
  std::vector<int32_t> ids;
  for (const Candidate& candidate : request.candidates) {
    if (const auto* id = std::get_if<int32_t>(&candidate)) {
      require_id("a candidate", *id);
      ids.push_back(*id);
      continue;
    }
    // After token ids there is no text to go on from: the candidate's text stands alone.
    const auto& text = std::get<std::string>(candidate);
    const std::optional<int32_t> id =
        context != nullptr ? token_after(context_ids, *context, text) : token_after({}, "", text);
    if (!id) fail(ErrorCode::kInvalidArgument, "candidate {} is not one token after this context", quote_excerpt(text));
    ids.push_back(*id);
  }
  require_distinct(ids);
  return ids;
}

std::optional<int32_t> Intake::token_after(std::span<const int32_t> context_ids, std::string_view context,
                                           std::string_view candidate) const {
  std::string text(context);
  text += candidate;
  const std::vector<int32_t> ids = tokenizer().encode(text);
  if (ids.size() != context_ids.size() + 1 || !std::equal(context_ids.begin(), context_ids.end(), ids.begin()))
    return std::nullopt;
  return ids.back();
}

std::optional<int32_t> Intake::candidate_token(std::string_view context, std::string_view candidate) const {
  return token_after(tokenizer().encode(context), context, candidate);
}

}  // namespace zp
