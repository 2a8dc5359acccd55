#include "zp/base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "zp/base/error.h"

namespace zp {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    // CTest runs the tests of one program at the same time, each in a process of its own.
    folder_ = std::filesystem::path(testing::TempDir()) / ("mapped_file_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& content) {
    std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::filesystem::path folder_;
};

std::string text(const MappedFile& file) {
  std::string result(file.bytes().size(), '\0');
  std::transform(file.bytes().begin(), file.bytes().end(), result.begin(),
                 [](std::byte byte) { return static_cast<char>(byte); });
  return result;
}

// The code and the message of the error that opening `path` throws.
std::pair<ErrorCode, std::string> error_of(const std::filesystem::path& path) {
  try {
    const MappedFile file(path);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << path << " was opened";
  return {};
}

TEST_F(MappedFileTest, ShowsTheWholeFile) {
  EXPECT_EQ(text(MappedFile(write("some", "prefill"))), "prefill");
  const std::string with_zeros("a\0b\n", 4);
  EXPECT_EQ(text(MappedFile(write("zeros", with_zeros))), with_zeros);
  const std::string pages(3 * 4096 + 1, 'x');
  EXPECT_EQ(text(MappedFile(write("pages", pages))), pages);
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) { EXPECT_TRUE(MappedFile(write("empty", "")).bytes().empty()); }

TEST_F(MappedFileTest, ADefaultOneHasNoBytes) { EXPECT_TRUE(MappedFile().bytes().empty()); }

TEST_F(MappedFileTest, AMissingFileIsNotFoundAndNamed) {
  const auto [code, message] = error_of(folder_ / "missing");
  EXPECT_EQ(code, ErrorCode::kNotFound);
  EXPECT_THAT(message, testing::HasSubstr("missing: No such file or directory"));
}

TEST_F(MappedFileTest, AFileUsedAsAFolderIsNotFound) {
  EXPECT_EQ(error_of(write("file", "x") / "below").first, ErrorCode::kNotFound);
}

TEST_F(MappedFileTest, AFolderIsRefused) {
  const auto [code, message] = error_of(folder_);
  EXPECT_EQ(code, ErrorCode::kIo);
  EXPECT_THAT(message, testing::HasSubstr("not a regular file"));
}

TEST_F(MappedFileTest, MovingKeepsTheBytesWhereTheyAre) {
  MappedFile first(write("first", "first"));
  const std::byte* where = first.bytes().data();
  MappedFile moved(std::move(first));
  EXPECT_EQ(moved.bytes().data(), where);
  MappedFile second(write("second", "second"));
  second = std::move(moved);
  EXPECT_EQ(second.bytes().data(), where);
  EXPECT_EQ(text(second), "first");
}

TEST_F(MappedFileTest, DiscardedBytesAreReadAgainFromTheFile) {
  const std::string pages(3 * 4096, 'y');
  const MappedFile file(write("pages", pages));
  EXPECT_EQ(text(file), pages);
  file.discard(file.bytes());
  file.discard(file.bytes().subspan(10, 100));
  file.discard({});
  EXPECT_EQ(text(file), pages);
}

TEST_F(MappedFileTest, ReadsBytesFromAnyOffset) {
  const MappedFile file(write("f", "0123456789"));
  std::string text(4, '\0');
  file.read(3, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "3456");
  file.read(10, {});  // nothing, at the end
  MappedFile moved = MappedFile(write("g", "abc"));
  const MappedFile other(std::move(moved));
  text.resize(3);
  other.read(0, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(other.path().filename(), "g");
}

TEST_F(MappedFileTest, AFileCutShortIsNamedByReadAndFetch) {
  const std::filesystem::path path = write("f", std::string(100'000, 'x'));
  const MappedFile file(path);
  EXPECT_NO_THROW(file.fetch(file.bytes()));
  std::filesystem::resize_file(path, 10'000);
  std::string text(90'000, '\0');
  const auto expect_named = [&](auto&& act) {
    try {
      act();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_THAT(error.what(), testing::HasSubstr(path.string()));
      EXPECT_THAT(error.what(), testing::HasSubstr("100000"));
    }
  };
  expect_named([&] { file.read(5000, std::as_writable_bytes(std::span(text))); });
  expect_named([&] { file.fetch(file.bytes()); });
}

}  // namespace
}  // namespace zp
