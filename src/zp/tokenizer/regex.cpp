// How is a pattern found in a text?
#include "zp/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>

#include "zp/base/check.h"
#include "zp/base/error.h"
#include "zp/tokenizer/utf8.h"

namespace zp::tokenizer {
namespace {

constexpr std::size_t kJitStackStartBytes = 64 << 10;
constexpr std::size_t kJitStackMaxBytes = 64 << 20;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct RegexScratch::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = nullptr;  // null until the machine's stack was too small
  pcre2_jit_stack* stack = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }

  // Gives matching a larger stack; false if it already has one.
  bool grow() {
    if (context != nullptr) return false;
    context = pcre2_match_context_create(nullptr);
    stack = pcre2_jit_stack_create(kJitStackStartBytes, kJitStackMaxBytes, nullptr);
    ZP_CHECK(context != nullptr && stack != nullptr, "PCRE2 got no memory for its stack");
    pcre2_set_match_limit(context, UINT32_MAX);
    pcre2_jit_stack_assign(context, nullptr, stack);
    return true;
  }
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  ZP_CHECK(state_->data != nullptr, "PCRE2 got no memory for its match data");
}
RegexScratch::~RegexScratch() = default;

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern) : code_(std::make_unique<Code>()) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code_->code == nullptr) {
    fail(ErrorCode::kUnsupported, "pattern \"{}\" does not compile: {} at offset {}", pattern, message_of(error),
         offset);
  }
  // Without just-in-time compilation (a machine that forbids it) the same matches come from the interpreter.
  code_->jit = pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE) == 0;
}
Regex::~Regex() = default;

std::optional<Match> Regex::find(std::string_view text, std::size_t start, RegexScratch& scratch) const {
  RegexScratch::State& state = *scratch.state_;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  while (true) {
    const int found =
        code_->jit
            ? pcre2_jit_match(code_->code, subject, text.size(), start, PCRE2_NO_UTF_CHECK, state.data, state.context)
            : pcre2_match(code_->code, subject, text.size(), start, PCRE2_NO_UTF_CHECK, state.data, state.context);
    if (found >= 0) break;
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    const bool may_retry = found == PCRE2_ERROR_JIT_STACKLIMIT || found == PCRE2_ERROR_MATCHLIMIT;
    if (!may_retry || !state.grow()) {
      fail(ErrorCode::kInvalidArgument, "the pre-tokenizer's pattern fails on this text near byte {}: {}", start,
           message_of(found));
    }
  }
  const PCRE2_SIZE* pair = pcre2_get_ovector_pointer(state.data);
  return Match{pair[0], pair[1]};
}

std::optional<Match> MatchIterator::next() {
  while (start_ <= text_.size()) {
    const std::optional<Match> match = regex_.find(text_, start_, scratch_);
    if (!match) return std::nullopt;
    if (match->begin == match->end && last_end_ == match->end) {
      start_ += start_ < text_.size() ? decode_valid(text_, start_).size_bytes : 1;
      continue;
    }
    start_ = match->end;
    last_end_ = match->end;
    return match;
  }
  return std::nullopt;
}

}  // namespace zp::tokenizer
