// Do CSV and TSV follow their rules, and do bad headers, rows and files say so?
#include "zp/task/row_reader.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/task/task_test_util.h"

namespace zp {
namespace {

using test::message_of;
using test::read_rows;
using test::show_all;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> csv(const std::string& text, const RowReaderOptions& options = {}) {
  return show_all(read_rows(RowFormat::kCsv, text, options));
}
std::vector<std::string> tsv(const std::string& text, const RowReaderOptions& options = {}) {
  return show_all(read_rows(RowFormat::kTsv, text, options));
}

TEST(CsvReader, ReadsQuotesCommasAndLineBreaksInFields) {
  EXPECT_THAT(csv("a,b\n1,2\n\"x,\"\"y\"\"\",\"p\r\nq\n\"\n,\n\"\",\"\"\n"),
              ElementsAre("a=1|b=2", "a=x,\"y\"|b=p\r\nq\n", "a=|b=", "a=|b="));
}

TEST(CsvReader, ReadsCrlfAndAByteOrderMarkAndALastLineWithoutEnd) {
  EXPECT_THAT(csv("\xEF\xBB\xBF"
                  "a,b\r\n1,2\r\n3,4"),
              ElementsAre("a=1|b=2", "a=3|b=4"));
  EXPECT_THAT(csv("\xEF\xBB\xBF\"a\",b\n1,"), ElementsAre("a=1|b="));
}

TEST(CsvReader, KeepsSpacesAndCarriageReturnsInQuotes) {
  EXPECT_THAT(csv("a,b\n x ,\"\r\"\n"), ElementsAre("a= x |b=\r"));
}

TEST(CsvReader, SkipsEmptyLinesAndCountsThem) {
  const auto rows = read_rows(RowFormat::kCsv, "\r\na\n\n1\n\r\n\"p\nq\"\n\"\"\n");
  ASSERT_EQ(show_all(rows), (std::vector<std::string>{"a=1", "a=p\nq", "a="}));
  EXPECT_EQ(rows[0].line, 4);
  EXPECT_EQ(rows[1].line, 6);
  EXPECT_EQ(rows[2].line, 8);
  EXPECT_EQ(rows[2].index, 2);
}

TEST(CsvReader, RefusesAWrongNumberOfFieldsAndGoesOn) {
  EXPECT_THAT(csv("a,b\n1\n1,2,3\n1,2\n"),
              ElementsAre("error: line 2: the row has 1 fields, but the header on line 1 names 2 columns",
                          "error: line 3: the row has 3 fields, but the header on line 1 names 2 columns", "a=1|b=2"));
}

TEST(CsvReader, RefusesStrayQuotesAndCarriageReturnsAndGoesOn) {
  EXPECT_THAT(csv("a,b\n5\" pipe,1\n\"x\"y,\"1\n2\"\n1\r,2\n\"x\"\r,3\n1,2\n"),
              ElementsAre(HasSubstr("line 2: the row has a quote inside a field"),
                          HasSubstr("line 3: the row has text after a closing quote"),
                          HasSubstr("line 5: the row has a carriage return without a line feed"),
                          HasSubstr("line 6: the row has text after a closing quote"), "a=1|b=2"));
}

TEST(CsvReader, ReportsAQuoteLeftOpenAtTheEnd) {
  EXPECT_THAT(
      csv("a,b\n1,2\n3\n4,\"x\ny\n"),
      ElementsAre("a=1|b=2", HasSubstr("line 3: the row has 1 fields"),
                  "error: line 4: the row has a quote, opened on line 4, that is not closed before the file ends"));
  EXPECT_THAT(csv("a\n\"x\"\"\n"), ElementsAre(HasSubstr("not closed")));
}

TEST(CsvReader, RefusesInvalidUtf8AndGoesOn) {
  EXPECT_THAT(csv("a,b\n1,x\xFFy\n1,2\n"),
              ElementsAre("error: line 2: column 'b' is not UTF-8 at its byte 1: 'x?y'", "a=1|b=2"));
}

TEST(CsvReader, BoundsTheRowAndGoesOn) {
  EXPECT_THAT(csv("a,b\n1234567,8\n12345678,9\n\"" + std::string(100000, '\n') + "\",x\n1,2\n", {.row_bytes_max = 8}),
              ElementsAre("a=1234567|b=8", "error: line 3: the row has more bytes than the limit of 8",
                          "error: line 4: the row has more bytes than the limit of 8", "a=1|b=2"));
}

TEST(CsvReader, BoundsTheColumns) {
  EXPECT_THAT(csv("a,b\n" + std::string(kMaxColumns, ',') + "\n1,2\n"),
              ElementsAre("error: line 2: the row has more columns than the limit of 16384", "a=1|b=2"));
  EXPECT_THAT(csv("a,b\n" + std::string(kMaxColumns - 1, ',') + "\n"), ElementsAre(HasSubstr("has 16384 fields")));
}

TEST(CsvReader, ABadHeaderIsTheErrorOfEveryRowOrOfOne) {
  const std::string twice = "error: line 1: the header names 'a' twice, as columns 1 and 3; names must be distinct";
  EXPECT_THAT(csv("a,b,a\n1,2,3\n4,5,6\n"), ElementsAre(twice, twice));
  EXPECT_THAT(csv("a,b,a\n"), ElementsAre(twice));
  EXPECT_THAT(csv("a,\n1,2\n"), ElementsAre("error: line 1: column 2 of the header has no name"));
  EXPECT_THAT(csv("a,\xFF\n1,2\n"), ElementsAre(HasSubstr("line 1: the name of column 2 is not UTF-8")));
  EXPECT_THAT(csv("a,\"b\n1,2\n"), ElementsAre(HasSubstr("line 1: the row has a quote, opened on line 1")));
  EXPECT_THAT(csv("\n\n"), ElementsAre(HasSubstr("the file is empty")));
  EXPECT_THAT(csv("a,b\n"), ElementsAre());
}

TEST(CsvReader, RowsOfABadHeaderKeepTheirOwnLinesAndIndexes) {
  const auto rows = read_rows(RowFormat::kCsv, "a,a\n1,2\n3,4\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_EQ(rows[1].index, 1);
}

TEST(TsvReader, TakesQuotesLiterally) {
  EXPECT_THAT(tsv("a\tb\r\n\"x\t5\" pipe\r\n\n\ty\r\n"), ElementsAre("a=\"x|b=5\" pipe", "a=|b=y"));
}

TEST(TsvReader, RefusesBadRowsAndGoesOn) {
  EXPECT_THAT(
      tsv("a\tb\n1\n1\t\xFF\n12345678\t9\n" + std::string(kMaxColumns, '\t') + "\n1\t2", {.row_bytes_max = 20000}),
      ElementsAre("error: line 2: the row has 1 fields, but the header on line 1 names 2 columns",
                  "error: line 3: column 'b' is not UTF-8 at its byte 0: '?'", "a=12345678|b=9",
                  "error: line 5: the row has 16385 columns, more than the limit of 16384", "a=1|b=2"));
  EXPECT_THAT(tsv("a\tb\n12345678\t9\n1\t2\n", {.row_bytes_max = 9}),
              ElementsAre("error: line 2: the row has more bytes than the limit of 9", "a=1|b=2"));
}

TEST(OpenRows, ChoosesTheFormatByTheExtension) {
  const test::TempFolder folder;
  const std::vector<std::pair<std::string, std::string>> files = {
      {"r.jsonl", "{\"a\":\"1\"}"}, {"r.csv", "a\n\"1\"\n"}, {"r.TSV", "a\n1\n"}};
  for (const auto& [name, bytes] : files) {
    test::write_file(folder.file(name), bytes);
    EXPECT_THAT(show_all(test::all_rows(*open_rows(folder.file(name)))), ElementsAre("a=1")) << name;
  }
}

TEST(OpenRows, ADashIsStandardInputAsJsonLines) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int saved = ::dup(STDIN_FILENO);
  ASSERT_EQ(::dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  const std::string text = "{\"a\":1}\n{\"a\":2}\n";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_THAT(show_all(test::all_rows(*open_rows("-"))), ElementsAre("a=1", "a=2"));
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
}

TEST(OpenRows, ThrowsForUnknownExtensionsMissingFilesAndFolders) {
  const test::TempFolder folder;
  const auto open = [&](ErrorCode code, const std::string& name) {
    return message_of(code, [&] { (void)open_rows(folder.file(name)); });
  };
  EXPECT_THAT(open(ErrorCode::kInvalidArgument, "rows.parquet"),
              HasSubstr("'.parquet'; rows are read from .jsonl, .csv"));
  EXPECT_THAT(open(ErrorCode::kInvalidArgument, "rows"), HasSubstr("has the extension ''"));
  EXPECT_THAT(open(ErrorCode::kNotFound, "none.csv"), HasSubstr("none.csv: No such file"));
  std::filesystem::create_directory(folder.file("folder.csv"));
  EXPECT_THAT(open(ErrorCode::kIo, "folder.csv"), HasSubstr("it is a folder"));
}

}  // namespace
}  // namespace zp
