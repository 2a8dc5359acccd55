// A tokenizer takes no more memory than what is planned for it.
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <string>

#include "tests/tokenizer/fixtures.h"
#include "zp/tokenizer/tokenizer.h"

namespace zp {
namespace {

// Bytes of the heap in use; 0 under a sanitizer, whose allocator does not tell.
size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(TokenizerMemory, IsNoMoreThanPlanned) {
  for (const std::filesystem::path& path : {test::fixture_path("qwen_small"), test::fixture_path("gpt2_small"),
                                            std::filesystem::path(ZP_SOURCE_DIR) / "models/demo-moe/tokenizer.json"}) {
    SCOPED_TRACE(path.string());
    const size_t before = heap_bytes();
    const auto tokenizer = Tokenizer::load(path);
    const size_t after = heap_bytes();
    if (after == 0) GTEST_SKIP() << "this allocator does not count";
    EXPECT_GT(after, before);
    EXPECT_LE(after - before, Tokenizer::memory_bytes_max(path));
  }
}

TEST(TokenizerMemory, OfAMissingFileIsNone) { EXPECT_EQ(Tokenizer::memory_bytes_max("/nonexistent"), 0U); }

}  // namespace
}  // namespace zp
