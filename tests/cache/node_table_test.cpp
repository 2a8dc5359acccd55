// The table against std::map, under random insertions and erasures of few and of many tags.
#include "zp/cache/node_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace zp {
namespace {

TEST(NodeTable, AsksTheCallerWhichNodeOfATagIsMeant) {
  NodeTable table;
  for (NodeId node = 0; node < 5; ++node) table.insert(77, node);
  for (NodeId node = 0; node < 5; ++node) EXPECT_EQ(table.find(77, [&](NodeId n) { return n == node; }), node);
  EXPECT_EQ(table.find(77, [](NodeId) { return false; }), kNoNode);
  EXPECT_EQ(table.find(78, [](NodeId) { return true; }), kNoNode);
  // Tags that point to the same place are told apart: a table of 1,024 places has no other bits to go by.
  EXPECT_EQ(table.find(77 + 1024, [](NodeId) { return true; }), kNoNode);
}

TEST(NodeTableDeathTest, RefusesToEraseWhatIsNotThere) {
  NodeTable table;
  EXPECT_DEATH(table.erase(5, 1), "node 1 is not filed under 5");
  table.insert(5, 1);
  EXPECT_DEATH(table.erase(6, 1), "node 1 is not filed under 6");
}

// Tags of few bits make long runs that wrap round the end; tags of all bits are as hashes are.
TEST(NodeTable, HasWhatANaiveMapHas) {
  for (const uint32_t tag_mask : {0x3U, 0x3FFU, 0xFFFFFFFFU}) {
    SCOPED_TRACE(tag_mask);
    std::mt19937 random(tag_mask);
    NodeTable table;
    std::map<NodeId, uint32_t> naive;
    const auto limit = tag_mask == 3 ? 200U : 2000U;
    for (int step = 0; step < 20'000; ++step) {
      const auto node = static_cast<NodeId>(random() % limit);
      if (const auto found = naive.find(node); found != naive.end()) {
        ASSERT_EQ(table.find(found->second, [&](NodeId n) { return n == node; }), node);
        table.erase(found->second, node);
        naive.erase(found);
      } else {
        const uint32_t tag = static_cast<uint32_t>(random() & tag_mask) + (tag_mask == 3 ? 1022 : 0);
        table.insert(tag, node);
        naive.emplace(node, tag);
      }
      if (step % 1000 == 0) table.check_invariants();
    }
    ASSERT_EQ(table.size(), naive.size());
    for (const auto& [node, tag] : naive) ASSERT_EQ(table.find(tag, [&](NodeId n) { return n == node; }), node);
    size_t seen = 0;
    table.for_each([&](uint32_t tag, NodeId node) {
      ++seen;
      EXPECT_EQ(naive.at(node), tag);
    });
    EXPECT_EQ(seen, naive.size());
  }
}

}  // namespace
}  // namespace zp
