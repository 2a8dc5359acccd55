// Finds the words that are fields.
#include "option_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace zp::app {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Of names, paths and options: a dot or a dash belongs to it only between two such characters.
size_t word_end(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size()) {
    const bool joins = text[end] == '.' || text[end] == '-' || text[end] == '/';
    if (!is_name(text[end]) && !(joins && end + 1 < text.size() && (is_name(text[end + 1]) || text[end] == '/'))) break;
    ++end;
  }
  return end;
}

// The end of what is quoted at `begin`: a user's text, in which no word is a field. An apostrophe opens no quote.
size_t quote_end(std::string_view text, size_t begin) {
  if (text[begin] != '\'' || (begin > 0 && is_name(text[begin - 1]))) return begin;
  size_t end = text.find('\'', begin + 1);
  while (end != std::string_view::npos && end + 1 < text.size() && is_name(text[end + 1]))
    end = text.find('\'', end + 1);
  return end == std::string_view::npos ? begin : end + 1;
}

// Of a plain word: does message[begin, end) say what the field is, at the start of a problem?
bool begins_problem(std::string_view message, size_t begin, size_t end) {
  const std::string_view before = message.substr(0, begin);
  return (before.empty() || before.ends_with("; ") || before.ends_with('\n')) &&
         message.substr(end).starts_with(" is ");
}

}  // namespace

std::string with_option_names(std::string_view message, std::span<const FieldOption> fields) {
  std::string said;
  for (size_t begin = 0; begin < message.size();) {
    const size_t quoted = quote_end(message, begin);
    said += message.substr(begin, quoted - begin);
    begin = quoted;
    if (begin == message.size()) break;
    const size_t end = std::max(word_end(message, begin), begin + 1);
    const std::string_view word = message.substr(begin, end - begin);
    const auto known = std::ranges::find(fields, word, &FieldOption::field);
    const bool plain = word.find_first_of("_.") == std::string_view::npos;
    said += known != fields.end() && (!plain || begins_problem(message, begin, end)) ? known->option : word;
    begin = end;
  }
  return said;
}

std::string why_other_experts(std::string_view asked, std::string_view actual, const ExpertMemory& memory) {
  if (asked == "auto" || asked == actual) return "";
  const std::string none_left = fmt::format("memory holds all experts, so none is left to the host{}",
                                            memory.option.empty() ? "" : fmt::format("; {} bounds it", memory.option));
  std::string why = "only one layer has experts, and every rank keeps the first such layer";
  if (actual == "gathered")
    why = "the ranks' " + none_left;
  else if (actual == "host")
    why = "one rank shares the streaming with nobody: what its memory does not hold comes over its own host link";
  else if (memory.ranks == 1 && asked == "gathered")
    why = "one rank keeps all experts, since there is no other to gather them from";
  else if (memory.ranks == 1 && asked == "hybrid")
    why = "the rank's " + none_left;
  return fmt::format("--experts {} came to {}: {}", asked, actual, why);
}

}  // namespace zp::app
