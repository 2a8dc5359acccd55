// What a safetensors file may not be, and that each fault is named.
#include "zp/model/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "zp/model/checkpoint.h"

namespace zp {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::string file_of(const std::string& header, size_t data_bytes) {
  const auto size = static_cast<uint64_t>(header.size());
  std::string bytes(sizeof(size), '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes + header + std::string(data_bytes, 'x');
}

void expect_corrupt(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors", bytes);
  expect_error([&] { const SafetensorsFile file(path); }, ErrorCode::kCorrupt, parts);
}

TEST(Safetensors, FindsTensorsAndTheirBytes) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("f.safetensors",
                   file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}})",
                           10));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 2U);
  const StoredTensor& a = file.tensors().at("a");
  EXPECT_EQ(a.dtype, "F32");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(a.bytes.size(), 8U);
  EXPECT_EQ(file.tensors().at("b").bytes.data(), a.bytes.data() + 8);
}

TEST(Safetensors, AMissingFileIsNotFound) {
  expect_error([] { const SafetensorsFile file("/nonexistent/x.safetensors"); }, ErrorCode::kNotFound,
               {"/nonexistent/x.safetensors"});
}

TEST(Safetensors, RefusesFilesTooShortForAHeader) { expect_corrupt("1234", {"4 bytes"}); }

TEST(Safetensors, RefusesAHeaderLongerThanTheFile) {
  std::string bytes = file_of("{}", 0);
  bytes[0] = 100;
  expect_corrupt(bytes, {"100 bytes"});
}

TEST(Safetensors, RefusesAHeaderThatIsNoJson) { expect_corrupt(file_of("{\"a\":", 0), {"JSON"}); }

TEST(Safetensors, RefusesATruncatedFile) {
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 12), {"'a'", "[0, 16)", "12"});
}

TEST(Safetensors, RefusesSizesThatContradictTheShape) {
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}})", 16), {"'a'", "12", "16"});
}

TEST(Safetensors, RefusesSizesThatOverflow) {
  expect_corrupt(file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 16),
                 {"'a'", "overflow"});
}

TEST(Safetensors, RefusesUnknownTypes) {
  expect_corrupt(file_of(R"({"a":{"dtype":"F3","shape":[4],"data_offsets":[0,16]}})", 16), {"'a'", "F3"});
}

TEST(Safetensors, RefusesOverlappingTensors) {
  expect_corrupt(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                         8),
                 {"'b'", "overlaps", "'a'"});
}

TEST(Safetensors, RefusesNegativeDimensions) {
  expect_corrupt(file_of(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,4]}})", 8), {"'a'", "dimension"});
}

TEST(Checkpoint, AnIndexMayNotPointOutOfItsFolder) {
  const TemporaryFolder folder;
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"../../etc/passwd"}})");
  expect_error([&] { const Checkpoint checkpoint(folder.path()); }, ErrorCode::kCorrupt, {"'a'", "../../etc/passwd"});
}

TEST(Checkpoint, NamesTheTensorThatAShardLacks) {
  const TemporaryFolder folder;
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"s1.safetensors"}})");
  folder.write("s1.safetensors", file_of("{}", 0));
  expect_error([&] { const Checkpoint checkpoint(folder.path()); }, ErrorCode::kCorrupt, {"'a'", "s1.safetensors"});
}

TEST(Checkpoint, NamesAMissingShard) {
  const TemporaryFolder folder;
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"s1.safetensors"}})");
  expect_error([&] { const Checkpoint checkpoint(folder.path()); }, ErrorCode::kNotFound, {"s1.safetensors"});
}

TEST(Checkpoint, SaysWhichShapeWasExpected) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", file_of(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                                            R"("b":{"dtype":"I64","shape":[2],"data_offsets":[16,32]}})",
                                            32));
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensor("a", {4}).size_bytes(), 16U);
  expect_error([&] { (void)checkpoint.tensor("a", {2, 2}); }, ErrorCode::kCorrupt, {"'a'", "[4]", "[2, 2]"});
  expect_error([&] { (void)checkpoint.tensor("b", {2}); }, ErrorCode::kUnsupported, {"'b'", "I64"});
  expect_error([&] { (void)checkpoint.tensor("c", {2}); }, ErrorCode::kNotFound, {"'c'"});
}

}  // namespace
}  // namespace zp
