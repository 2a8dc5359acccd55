// Traces of every form, and files that are none.
#include "zp/simulate/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"
#include "zp/base/error.h"

namespace zp {
namespace {

using ::testing::HasSubstr;

class TraceFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
    return folder_.path() / name;
  }

  std::string problem(const std::string& name, const std::string& text) {
    try {
      (void)read_trace(write(name, text));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      return error.what();
    }
    return "none";
  }

  test::TemporaryFolder folder_;
};

TEST_F(TraceFile, MooncakeBlocksAreTokens) {
  const Workload w =
      read_trace(write("m.jsonl",
                       R"({"timestamp": 3000, "input_length": 1000, "output_length": 5, "hash_ids": [4, 9]}
{"timestamp": 1000, "input_length": 513, "output_length": 1, "hash_ids": [4, 7]}
{"timestamp": 1000, "input_length": 0, "output_length": 1, "hash_ids": []}
)"));
  ASSERT_EQ(w.requests.size(), 2U);
  EXPECT_EQ(w.requests[0].tokens(), 513);
  EXPECT_EQ(w.requests[0].arrival_ns, 0);
  EXPECT_EQ(w.requests[1].tokens(), 1000);
  EXPECT_EQ(w.requests[1].arrival_ns, 2'000'000'000);
  // Both begin with block 4: 512 tokens, 32 blocks of ours.
  EXPECT_EQ(reusable_tokens(w), 512);
}

TEST_F(TraceFile, PromptsShareTokensAsFarAsTheyShareText) {
  const std::string shared(200, 'a');
  write("calls/b.jsonl",
        R"({"timestamp": 20, "input": ")" + shared + R"(xyz", "output": "", "session_id": "1"})" + "\n");
  write("calls/a.jsonl", R"({"timestamp": 30, "input": ")" + shared + R"(b", "output": "", "session_id": "2"})" + "\n");
  write("calls/notes.txt", "not a trace");
  const Workload w = read_trace(folder_.path() / "calls");
  ASSERT_EQ(w.requests.size(), 2U);
  EXPECT_EQ(w.requests[0].tokens(), 51);
  EXPECT_EQ(w.requests[1].arrival_ns, 10'000);
  EXPECT_EQ(reusable_tokens(w), 48);  // 50 tokens are equal, 3 blocks of 16
}

TEST_F(TraceFile, AzureTimesAndLengths) {
  const Workload w = read_trace(write("a.csv",
                                      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                                      "2023-11-16 23:59:59.5000000,374,44\r\n"
                                      "2023-11-17 00:00:01.0000001,396,109\r\n"));
  ASSERT_EQ(w.requests.size(), 2U);
  EXPECT_EQ(w.requests[0].tokens(), 374);
  EXPECT_EQ(w.requests[1].tokens(), 396);
  EXPECT_EQ(w.requests[1].arrival_ns, 1'500'000'100);
  EXPECT_TRUE(w.timed);
  EXPECT_EQ(reusable_tokens(w), 0);
}

// Over a leap day, and two days later at an earlier time of day; a line that is out of order comes where its time is.
TEST_F(TraceFile, AzureTimesGoOnOverDays) {
  const Workload w = read_trace(write("a.csv",
                                      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                      "2024-02-28 12:00:00.0000000,1,1\n"
                                      "2024-03-01 11:00:00.0000000,3,1\n"
                                      "2024-02-28 23:30:00.0000000,2,1\n"));
  ASSERT_EQ(w.requests.size(), 3U);
  constexpr int64_t kHourNs = int64_t{3600} * 1'000'000'000;
  EXPECT_EQ(w.requests[1].tokens(), 2);
  EXPECT_EQ(w.requests[1].arrival_ns, 23 * kHourNs / 2);
  EXPECT_EQ(w.requests[2].tokens(), 3);
  EXPECT_EQ(w.requests[2].arrival_ns, 47 * kHourNs);
}

// Agent calls have microseconds since 1970.
TEST_F(TraceFile, TimesMayCountFrom1970ButNotLastForDecades) {
  const std::string first = R"({"timestamp": 1760995776640783, "input": "abcd"})";
  const Workload w = read_trace(write("a.jsonl", first + "\n" + R"({"timestamp": 1760995776640785, "input": "abcd"})"));
  EXPECT_EQ(w.requests[1].arrival_ns, 2000);
  EXPECT_THAT(problem("a.jsonl", first + "\n" + R"({"timestamp": 1, "input": "abcd"})"),
              HasSubstr("a.jsonl: 20381 days lie between the first request and the last; the limit is 3650"));
}

TEST_F(TraceFile, LengthsArriveAtOnce) {
  const Workload w = read_trace(write("l.csv", "num_prefill_tokens,num_decode_tokens\n3772,54\n2015,156\n"));
  ASSERT_EQ(w.requests.size(), 2U);
  EXPECT_EQ(w.tokens(), 3772 + 2015);
  EXPECT_EQ(w.requests[1].arrival_ns, 0);
  EXPECT_FALSE(w.timed);
}

TEST_F(TraceFile, SaysWhatIsWrongAndWhere) {
  const std::string good = R"({"timestamp": 1, "input_length": 600, "hash_ids": [1, 2]})"
                           "\n";
  EXPECT_EQ(problem("x.jsonl", good), "none");
  EXPECT_THAT(problem("x.jsonl", good + "{\"timestamp\": "), HasSubstr("x.jsonl:2: not a JSON object"));
  EXPECT_THAT(problem("x.jsonl", "[1, 2]\n"), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem("x.jsonl", R"({"timestamp": 1})"
                                 "\n"),
              HasSubstr("no trace of a known form"));
  EXPECT_THAT(problem("x.jsonl", R"({"timestamp": 1, "input_length": 600, "hash_ids": [1]})"
                                 "\n"),
              HasSubstr("1 hash_ids for 600 tokens; 2 blocks"));
  EXPECT_THAT(problem("x.jsonl", R"({"timestamp": 1, "input_length": -4, "hash_ids": []})"
                                 "\n"),
              HasSubstr("input_length is -4"));
  EXPECT_THAT(problem("x.jsonl", R"({"timestamp": 1, "input_length": 99999999, "hash_ids": []})"
                                 "\n"),
              HasSubstr("input_length is 99999999; it must lie in [0, 8388608]"));
  EXPECT_THAT(problem("x.jsonl", R"({"timestamp": "now", "input": "abc"})"
                                 "\n"),
              HasSubstr("timestamp is '\"now\"'; it must be a whole number in [0, "));
  EXPECT_THAT(problem("x.jsonl", R"({"timestamp": 9223372036854, "input_length": 600, "hash_ids": [1, 2]})"
                                 "\n"),
              HasSubstr("timestamp is 9223372036854; it must lie in [0, 6307200000000]"));
  EXPECT_THAT(problem("x.jsonl", R"({"timestamp": 1, "input_length": 5, "hash_ids": ["a"]})"
                                 "\n"),
              HasSubstr("one of hash_ids is '\"a\"'; it must be a whole number in [0, 18446744073709551615]"));
  EXPECT_THAT(problem("x.jsonl", R"({"timestamp": 1, "input_length": 600, "hash_ids": [1, -1]})"
                                 "\n"),
              HasSubstr("x.jsonl:1: one of hash_ids is '-1'; it must be"));
  EXPECT_THAT(
      problem("x.jsonl", R"({"timestamp": 1, "input_length": 5, "hash_ids": [")" + std::string(99, 'a') + "\"]}"),
      HasSubstr("is '\"" + std::string(59, 'a') + "...';"));
  EXPECT_THAT(problem("x.jsonl", R"({"input_length": 5, "hash_ids": [1]})"), HasSubstr("timestamp is missing"));
  EXPECT_THAT(problem("x.csv", "a,b\n1,2\n"), HasSubstr("the columns 'a,b' are of no known trace"));
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  EXPECT_THAT(problem("x.csv", header + "yesterday,3,4\n"), HasSubstr("x.csv:2: TIMESTAMP is 'yesterday'"));
  for (const char* time :
       {"2023-13-16 18:15:46", "2023-02-29 18:15:46", "2023-11-16 24:15:46", "2023-11-16 18:60:46",
        "2023-11-16 18:15:-1", "2023/11/16 18:15:46", "2023-11-16 18:15:46.-1", "2023-11-16 18:15:46."})
    EXPECT_THAT(problem("x.csv", header + time + ",3,4\n"), HasSubstr(std::string("TIMESTAMP is '") + time)) << time;
  EXPECT_THAT(problem("x.csv", header + "1969-12-31 18:15:46,3,4\n"), HasSubstr("from 1970 on"));
  EXPECT_THAT(problem("x.csv", header + "9999-12-31 18:15:46,3,4\n"), HasSubstr("from 1970 on"));
  EXPECT_THAT(problem("x.csv", header + "2023-11-16 18:15:46.6805900\n"), HasSubstr("no second column"));
  EXPECT_THAT(problem("x.csv", header + "2023-11-16 18:15:46.6805900,many,4\n"), HasSubstr("is 'many', not a number"));
  EXPECT_THAT(problem("x.csv", header + "2023-11-16 18:15:46.6805900," + std::string(99, 'a') + ",4\n"),
              HasSubstr("is '" + std::string(60, 'a') + "...', not a number"));
  EXPECT_THAT(problem("x.csv", std::string(99, 'a') + "\n1,2\n"),
              HasSubstr("the columns '" + std::string(60, 'a') + "...' are of no known trace"));
  EXPECT_THAT(problem("x.csv", "num_prefill_tokens,num_decode_tokens\n-1,5\n"), HasSubstr("a request of -1 tokens"));
  EXPECT_THAT(problem("x.jsonl", ""), HasSubstr("no requests"));
  EXPECT_THROW((void)read_trace(folder_.path() / "missing.jsonl"), Error);
  std::filesystem::create_directories(folder_.path() / "empty");
  EXPECT_THROW((void)read_trace(folder_.path() / "empty"), Error);
}

}  // namespace
}  // namespace zp
