// How is a task file read, and how are all its problems reported at once?
#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "zp/base/excerpt.h"
#include "zp/base/utf8.h"
#include "zp/task/task_spec.h"
#include "zp/task/text_check.h"
#include "zp/task/text_source.h"

namespace zp {
namespace {

/// Collects problems and throws them together.
class Problems final {
 public:
  explicit Problems(std::string file_name) : file_name_(std::move(file_name)) {}

  void add(int line, std::string_view text) {
    ++count_;
    if (texts_.size() < kShown) texts_.push_back(fmt::format("{}:{}: {}", file_name_, line, text));
  }
  void add(const YAML::Node& node, std::string_view key, std::string_view text) {
    add(node.Mark().line + 1, fmt::format("{}: {}", key, text));
  }

  void throw_if_any() const {
    if (count_ == 0) return;
    if (count_ == 1) throw Error(ErrorCode::kInvalidArgument, texts_[0]);
    std::string all = fmt::format("The task file has {} problems:", count_);
    for (const std::string& text : texts_) all += "\n  " + text;
    if (count_ > kShown) all += fmt::format("\n  and {} more", count_ - kShown);
    throw Error(ErrorCode::kInvalidArgument, all);
  }

 private:
  static constexpr std::size_t kShown = 50;

  std::string file_name_;
  std::vector<std::string> texts_;  // the first kShown
  std::size_t count_ = 0;
};

std::string_view type_name(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  return node.IsNull() ? "empty" : "a scalar";
}

/// Reads one mapping at a time, remembering what was wrong.
class SpecParser final {
 public:
  explicit SpecParser(Problems& problems) : problems_(problems) {}

  TaskSpec parse(const YAML::Node& root) {
    if (!root.IsMap()) {
      problems_.add(root.Mark().line + 1,
                    fmt::format("the task must be a mapping of keys, but is {}", type_name(root)));
      return {};
    }
    check_keys(root, "", {"form", "instructions", "choices", "input", "id_column", "label_column"});
    const auto form = read_form(root);
    spec_.instructions = strip_trailing_whitespace(read_text(root, "instructions", Need::kRequired).value_or(""));
    read_input(root);
    spec_.id_column = read_text(root, "id_column", Need::kOptional);
    spec_.label_column = read_text(root, "label_column", Need::kOptional);
    if (form == TaskForm::kPredicate) {
      spec_.choices = {{.value = "true", .kind = ScalarKind::kBool, .description = {}},
                       {.value = "false", .kind = ScalarKind::kBool, .description = {}}};
      if (root["choices"])
        problems_.add(key_node(root, "choices"), "choices", "a predicate has none: its answers are true and false");
    } else if (form == TaskForm::kChoice) {
      read_choices(root);
    }
    return std::move(spec_);
  }

 private:
  enum class Need { kOptional, kRequired };

  /// Reports unknown, repeated and non-scalar keys. `where` is empty or the path of the mapping and a dot.
  void check_keys(const YAML::Node& map, const std::string& where, std::initializer_list<std::string_view> known) {
    std::vector<std::string> seen;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar()) {
        problems_.add(entry.first.Mark().line + 1,
                      fmt::format("{}a key must be a word, but is {}", where, type_name(entry.first)));
        continue;
      }
      const std::string& key = entry.first.Scalar();
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        problems_.add(entry.first, where + quote_excerpt(key),
                      fmt::format("unknown key; the keys are {}", fmt::join(known, ", ")));
      } else if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
        problems_.add(entry.first, where + key, "the key is given twice; limit 1");
      } else {
        seen.push_back(key);
      }
    }
  }

  /// The key's own node, whose line a problem with its value names: an empty value's line is the next token's. The
  /// mapping if it lacks the key.
  static YAML::Node key_node(const YAML::Node& map, const std::string& key) {
    for (const auto& entry : map) {
      if (entry.first.IsScalar() && entry.first.Scalar() == key) return entry.first;
    }
    return map;
  }

  /// A scalar that is not blank; anything else is a problem. `map` must be a mapping.
  std::optional<std::string> read_text(const YAML::Node& map, const std::string& key, Need need) {
    const YAML::Node node = map[key];
    if (!node) {
      if (need == Need::kRequired) problems_.add(map, key, "the key is missing, and required");
      return std::nullopt;
    }
    if (!node.IsScalar()) {
      problems_.add(key_node(map, key), key, fmt::format("must be text, but is {}", type_name(node)));
      return std::nullopt;
    }
    if (strip_whitespace(node.Scalar()).empty()) {
      problems_.add(key_node(map, key), key, fmt::format("must not be blank, but is {}", quote_excerpt(node.Scalar())));
      return std::nullopt;
    }
    return node.Scalar();
  }

  std::optional<TaskForm> read_form(const YAML::Node& root) {
    const std::optional<std::string> form = read_text(root, "form", Need::kRequired);
    if (form == "predicate") return spec_.form = TaskForm::kPredicate;
    if (form == "choice") return spec_.form = TaskForm::kChoice;
    if (form)
      problems_.add(key_node(root, "form"), "form",
                    fmt::format("must be predicate or choice, but is {}", quote_excerpt(*form)));
    return std::nullopt;
  }

  void read_input(const YAML::Node& root) {
    const std::optional<std::string> text = read_text(root, "input", Need::kRequired);
    if (!text) return;
    try {
      spec_.input = InputTemplate::parse(*text);
    } catch (const Error& error) {
      problems_.add(key_node(root, "input"), "input", error.what());
    }
  }

  void read_choices(const YAML::Node& root) {
    const YAML::Node list = root["choices"];
    if (!list) {
      problems_.add(root, "choices", "the key is missing, and required for form choice");
      return;
    }
    if (!list.IsSequence()) {
      problems_.add(key_node(root, "choices"), "choices", fmt::format("must be a list, but is {}", type_name(list)));
      return;
    }
    if (list.size() < kMinChoices || list.size() > kMaxChoices) {
      problems_.add(key_node(root, "choices"), "choices",
                    fmt::format("there are {}; the limits are {} to {}", list.size(), kMinChoices, kMaxChoices));
      return;
    }
    std::vector<int> lines;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string where = fmt::format("choices[{}]", i);
      const YAML::Node item = list[i];
      std::optional<TaskChoice> choice = read_choice(item, where);
      if (!choice) continue;
      const auto same = std::find_if(spec_.choices.begin(), spec_.choices.end(),
                                     [&](const TaskChoice& other) { return same_answer(other, *choice); });
      if (same != spec_.choices.end()) {
        problems_.add(
            item, where,
            fmt::format("{} is the same answer as {} on line {}; values must be distinct", quote_excerpt(choice->value),
                        quote_excerpt(same->value), lines[static_cast<std::size_t>(same - spec_.choices.begin())]));
        continue;
      }
      spec_.choices.push_back(*std::move(choice));
      lines.push_back(item.Mark().line + 1);
    }
  }

  std::optional<TaskChoice> read_choice(const YAML::Node& item, const std::string& where) {
    if (item.IsScalar()) return make_choice(item, where);
    if (!item.IsMap()) {
      problems_.add(item, where, fmt::format("must be a value or {{value, description}}, but is {}", type_name(item)));
      return std::nullopt;
    }
    check_keys(item, where + ".", {"value", "description"});
    const YAML::Node value = item["value"];
    if (!value || !value.IsScalar()) {
      problems_.add(
          value ? value : item, where + ".value",
          value ? fmt::format("must be a scalar, but is {}", type_name(value)) : "the key is missing, and required");
      return std::nullopt;
    }
    std::optional<TaskChoice> choice = make_choice(value, where + ".value");
    const YAML::Node description = item["description"];
    if (!choice || !description) return choice;
    if (!description.IsScalar() || strip_whitespace(description.Scalar()).empty()) {
      problems_.add(key_node(item, "description"), where + ".description",
                    fmt::format("must be text, but is {}", description.IsScalar() ? "blank" : type_name(description)));
      return choice;
    }
    if (check_one_line(description, where + ".description")) choice->description = description.Scalar();
    return choice;
  }

  std::optional<TaskChoice> make_choice(const YAML::Node& node, const std::string& where) {
    const std::string& text = node.Scalar();
    if (strip_whitespace(text).size() != text.size() || text.empty()) {
      problems_.add(node, where,
                    fmt::format("must not be empty, nor start or end with whitespace, but is {}", quote_excerpt(text)));
      return std::nullopt;
    }
    if (!check_one_line(node, where)) return std::nullopt;
    // yaml-cpp gives plain scalars the tag "?" and quoted ones "!".
    const ScalarKind kind = node.Tag() == "?" ? classify_scalar(text) : ScalarKind::kString;
    return TaskChoice{.value = text, .kind = kind, .description = {}};
  }

  bool check_one_line(const YAML::Node& node, const std::string& where) {
    if (node.Scalar().find_first_of("\r\n") == std::string::npos) return true;
    problems_.add(node, where,
                  fmt::format("must be one line, but is {}; '>-' folds lines without one at the end",
                              quote_excerpt(node.Scalar())));
    return false;
  }

  Problems& problems_;
  TaskSpec spec_;
};

/// What yaml-cpp would misread without a word: UTF-16, bytes that are not UTF-8, and control characters, of which it
/// takes 0x04 for the end of the file.
void check_bytes(std::string_view yaml, Problems& problems) {
  const auto line_at = [yaml](std::size_t offset) {
    return static_cast<int>(std::count(yaml.begin(), yaml.begin() + static_cast<std::ptrdiff_t>(offset), '\n')) + 1;
  };
  if (yaml.size() > kMaxTaskBytes) {
    problems.add(1, fmt::format("the file has more bytes than the limit of {}", kMaxTaskBytes));
    return;
  }
  if (const auto offset = find_invalid_utf8(yaml)) {
    problems.add(line_at(*offset), fmt::format("byte {} of the file, 0x{:02x}, is not UTF-8", *offset,
                                               static_cast<unsigned char>(yaml[*offset])));
    return;
  }
  const auto control = std::find_if(yaml.begin(), yaml.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
  });
  if (control == yaml.end()) return;
  const auto offset = static_cast<std::size_t>(control - yaml.begin());
  problems.add(line_at(offset),
               fmt::format("byte {} of the file is the control character 0x{:02x}, which YAML does not allow", offset,
                           static_cast<unsigned char>(*control)));
}

/// Keeps only where the last document starts.
class DocumentStarts final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { last_line = mark.line + 1; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  int last_line = 1;
};

/// Notes a problem unless there is exactly one document. YAML::LoadAll would tell too, but yaml-cpp 0.7 sees documents
/// without end in texts like "!a,": LoadAll then takes memory until there is none.
void check_document_count(const std::string& yaml, Problems& problems) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  if (!parser.HandleNextDocument(starts)) {
    problems.add(1, "the file holds no YAML document; it must hold 1");
  } else if (parser.HandleNextDocument(starts)) {
    problems.add(starts.last_line,
                 "another YAML document starts here, or text follows the first; the file must hold 1");
  }
}

}  // namespace

TaskSpec parse_task_spec(std::string_view yaml, const std::string& file_name) {
  Problems problems(file_name);
  check_bytes(yaml, problems);
  problems.throw_if_any();
  TaskSpec spec;
  try {
    const std::string text(yaml);
    check_document_count(text, problems);
    problems.throw_if_any();
    spec = SpecParser(problems).parse(YAML::Load(text));
  } catch (const YAML::DeepRecursion& error) {
    problems.add(std::max(error.mark.line + 1, 1),
                 fmt::format("the file nests values deeper than the limit of {}", error.depth()));
  } catch (const YAML::Exception& error) {
    problems.add(std::max(error.mark.line + 1, 1), fmt::format("the file is not readable as YAML: {}", error.msg));
  }
  problems.throw_if_any();
  return spec;
}

TaskSpec load_task_spec(const std::string& path) {
  const std::unique_ptr<TextSource> source = open_file_source(path);
  std::string yaml(kMaxTaskBytes + 1, '\0');
  std::size_t size = 0;
  while (size < yaml.size()) {
    const std::size_t count = source->read({yaml.data() + size, yaml.size() - size});
    if (count == 0) break;
    size += count;
  }
  yaml.resize(size);
  return parse_task_spec(yaml, path);
}

}  // namespace zp
