// Lengths drawn so that each source has the range and the total that Table 2 gives.
#include "zp/simulate/paper_mix.h"

#include "zp/simulate/random.h"

namespace zp {
namespace {

constexpr int32_t kInstruction = 48;  // tokens: three blocks

/// Adds requests of one source.
class Source final {
 public:
  Source(Workload& workload, const char* name)
      : workload_(workload), part_(static_cast<int32_t>(workload.parts.size())) {
    workload.parts.emplace_back(name);
  }

  /// A text that requests can share: number `index` of this source. 0 is the instruction.
  [[nodiscard]] TextPiece shared(int32_t index, int64_t tokens) const {
    return {.text = text(kShared + static_cast<uint64_t>(index)), .offset = 0, .count = static_cast<int32_t>(tokens)};
  }
  [[nodiscard]] TextPiece instruction() const { return shared(0, kInstruction); }

  /// A request of these pieces and so many tokens of its own.
  void add(std::vector<TextPiece> pieces, int64_t own_tokens) {
    pieces.push_back({.text = text(next_own_++), .offset = 0, .count = static_cast<int32_t>(own_tokens)});
    workload_.requests.push_back({.pieces = std::move(pieces), .part = part_});
  }

 private:
  static constexpr uint64_t kShared = uint64_t{1} << 32;
  [[nodiscard]] uint64_t text(uint64_t number) const { return (static_cast<uint64_t>(part_) << 40) + number; }

  Workload& workload_;
  int32_t part_;
  uint64_t next_own_ = 1;
};

// 24K requests of 100-200 tokens, 3.3M together: six prefixes of 96 tokens and 41.5 tokens a story.
void add_moral_stories(Workload& workload, Random& random) {
  Source source(workload, "MoralStories");
  for (int32_t task = 0; task < 6; ++task)
    for (int32_t i = 0; i < 4000; ++i) source.add({source.shared(1 + task, 96)}, random.between(16, 67));
}

// 24K requests of 50-500 tokens, 5.8M together: prefixes of 96-192 tokens (144 on the mean) and 98 tokens a question.
void add_mmlu(Workload& workload, Random& random) {
  Source source(workload, "MMLU");
  constexpr int32_t kSubjects = 57;
  for (int32_t subject = 0; subject < kSubjects; ++subject) {
    const TextPiece prefix = source.shared(1 + subject, 96 + subject * 96 / (kSubjects - 1));
    const int32_t first = 24'000 * subject / kSubjects;
    const int32_t end = 24'000 * (subject + 1) / kSubjects;
    for (int32_t i = first; i < end; ++i) source.add({prefix}, random.skewed(20, 98, 300));
  }
}

// 12K requests of 200-600 tokens, 2.7M together.
void add_boolq(Workload& workload, Random& random) {
  Source source(workload, "BoolQ");
  for (int32_t i = 0; i < 12'000; ++i) source.add({source.instruction()}, random.skewed(200, 225, 600) - kInstruction);
}

// 12K requests of 300-2K tokens, 5.5M together.
void add_imdb(Workload& workload, Random& random) {
  Source source(workload, "IMDB");
  for (int32_t i = 0; i < 12'000; ++i) source.add({source.instruction()}, random.skewed(300, 458, 2000) - kInstruction);
}

// 1.2K requests of 4K-12K tokens, 10.5M together: 80 documents of 8,500 tokens on the mean, 15 questions of 250 each.
void add_quality(Workload& workload, Random& random) {
  Source source(workload, "QuALITY");
  constexpr int32_t kDocuments = 80;
  for (int32_t document = 0; document < kDocuments; ++document) {
    const TextPiece text = source.shared(1 + document, 5500 + 6000 * ((document * 37) % kDocuments) / (kDocuments - 1));
    for (int32_t i = 0; i < 15; ++i) source.add({text}, random.between(100, 400));
  }
}

// 600 requests of 6K-128K tokens, 10.1M together.
void add_arxiv(Workload& workload, Random& random) {
  Source source(workload, "ArXiv");
  for (int32_t i = 0; i < 600; ++i)
    source.add({source.instruction()}, random.skewed(6000, 16'900, 128'000) - kInstruction);
}

}  // namespace

Workload paper_mix() {
  Workload workload{.name = "paper mix", .parts = {}, .requests = {}};
  Random random(20260503);
  add_moral_stories(workload, random);
  add_mmlu(workload, random);
  add_boolq(workload, random);
  add_imdb(workload, random);
  add_quality(workload, random);
  add_arxiv(workload, random);
  return workload;
}

}  // namespace zp
