// How does text become token ids, and ids text? The public face of the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zp {

struct EncodeOptions {
  bool add_special_tokens = false;  ///< Whether the post-processor's template is applied (a BOS token, say).
  bool parse_special = true;        ///< Whether special tokens written out in the text are those tokens. False for
                                    ///< text of unknown origin: "<|im_end|>" then is ten or so ordinary tokens.
};

/// A byte-level BPE tokenizer read from a tokenizer.json; its ids are those of Hugging Face tokenizers. Immutable:
/// every method may be called from any thread at any time, and none blocks.
class Tokenizer final {
 public:
  /// Reads a tokenizer.json, or the one in a folder, and for eos_id() and its kin the tokenizer_config.json beside it
  /// if there is one. Throws kNotFound or kIo for files, kUnsupported naming whatever part or option is not
  /// implemented, kCorrupt for a file that does not hold together.
  [[nodiscard]] static std::unique_ptr<Tokenizer> load(const std::filesystem::path& path);

  /// As load, from the content of a tokenizer.json.
  [[nodiscard]] static std::unique_ptr<Tokenizer> parse(std::string_view json);

  /// What load(path) may take at most, judged by the file's size alone; 0 if there is no such file.
  [[nodiscard]] static uint64_t memory_bytes_max(const std::filesystem::path& path);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// The ids of a text. Throws kInvalidArgument naming the byte offset if the text is not valid UTF-8.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view utf8, const EncodeOptions& options = {}) const;

  /// The text of some ids, always valid UTF-8: bytes that form no code point become U+FFFD. Throws kInvalidArgument
  /// for an id that is no token, naming it and size().
  [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = false) const;

  /// The id of a token, written as in tokenizer.json ("Ġthe"); empty if it is none.
  [[nodiscard]] std::optional<int32_t> token_to_id(std::string_view token) const;
  /// The token of an id, written as in tokenizer.json; empty if the id is none.
  [[nodiscard]] std::optional<std::string> id_to_token(int32_t id) const;
  /// The highest id + 1, added tokens included.
  [[nodiscard]] int32_t size() const;

  /// What tokenizer_config.json names, if it is there and the vocabulary has it.
  [[nodiscard]] std::optional<int32_t> bos_id() const;
  [[nodiscard]] std::optional<int32_t> eos_id() const;
  [[nodiscard]] std::optional<int32_t> pad_id() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);

  void read_config(const std::filesystem::path& path);

  std::unique_ptr<Parts> parts_;
};

}  // namespace zp
