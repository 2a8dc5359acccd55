// Does a tokenizer do with the rows of a fixture what Hugging Face tokenizers did?
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "zp/tokenizer/tokenizer.h"

namespace zp::test {

/// Checks one row in every way it tells of; keys that are left out repeat "ids" or "text".
inline void expect_row(const Tokenizer& tokenizer, const nlohmann::json& row) {
  using Ids = std::vector<int32_t>;
  const auto text = row.at("text").get<std::string>();
  const auto ids = row.at("ids").get<Ids>();
  const auto decoded = row.value("decoded", text);
  SCOPED_TRACE(row.at("text").dump());
  EXPECT_EQ(tokenizer.encode(text), ids);
  EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = true}), row.value("with_special", ids));
  EXPECT_EQ(tokenizer.encode(text, {.parse_special = false}), row.value("unparsed", ids));
  EXPECT_EQ(tokenizer.decode(ids), decoded);
  EXPECT_EQ(tokenizer.decode(ids, true), row.value("skipped", decoded));
}

}  // namespace zp::test
