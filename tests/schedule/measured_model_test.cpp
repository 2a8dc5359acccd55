// What models are called, and when rates are of another.
#include "zp/schedule/measured_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/current_folder.h"
#include "tests/support/temporary_folder.h"

namespace zp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ModelName, IsTheLastPartOfAPath) {
  EXPECT_EQ(model_name("/models/demo-moe"), "demo-moe");
  EXPECT_EQ(model_name("models/demo-moe/"), "demo-moe");
  EXPECT_EQ(model_name("models/demo-moe//."), "demo-moe");
  EXPECT_EQ(model_name("models/demo-moe/../other"), "other");
  EXPECT_EQ(model_name("."), std::filesystem::current_path().filename().string());
  EXPECT_EQ(model_name("/"), "/");
}

// Another model may lie in a folder with a known name.
TEST(ModelName, StaysAsAFolderIsCalled) {
  EXPECT_EQ(model_name("Demo-MoE"), "Demo-MoE");
  EXPECT_EQ(model_name("n/Qwen3-30b-a3b"), "Qwen3-30b-a3b");
  EXPECT_EQ(model_name("/models/QWEN3-30B-A3B/"), "QWEN3-30B-A3B");
}

TEST(ModelName, NeedsNoCurrentFolder) {
  const test::TemporaryFolder folder;
  const std::filesystem::path gone = folder.path() / "gone";
  std::filesystem::create_directory(gone);
  const test::CurrentFolder at(gone);
  std::filesystem::remove(gone);
  EXPECT_EQ(model_name("models/demo-moe/"), "demo-moe");
  EXPECT_EQ(model_name("demo-moe/../other"), "other");
  EXPECT_EQ(model_name("."), ".");
}

TEST(ModelName, IsTextWhateverThePath) {
  EXPECT_EQ(model_name("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(model_name("caf\xc3"), "caf?");
  EXPECT_EQ(model_name("a\x1b[1mb\n"), "a?[1mb?");
}

TEST(OtherModelWarning, NamesBothModelsAndTypes) {
  const MeasuredModel small{"demo-moe", "bf16"};
  EXPECT_EQ(other_model_warning("cal.json", small, small), "");
  EXPECT_THAT(other_model_warning("cal.json", small, {"Qwen3-30B-A3B", "bf16"}),
              AllOf(HasSubstr("warning: cal.json"), HasSubstr("demo-moe in bf16"), HasSubstr("Qwen3-30B-A3B in bf16")));
  EXPECT_THAT(other_model_warning("cal.json", small, {"demo-moe", "f32"}),
              AllOf(HasSubstr("demo-moe in bf16"), HasSubstr("demo-moe in f32")));
}

}  // namespace
}  // namespace zp
