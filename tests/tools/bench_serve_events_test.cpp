// SPDX-License-Identifier: Apache-2.0
// Tests the reader of event streams on pieces cut anywhere.
#include "tools/bench_serve_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace swiftkv {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Events = std::vector<std::string>;

Events ReadWhole(const std::string& bytes) { return EventStreamReader().Take(bytes); }

Events ReadInTwo(const std::string& bytes, std::size_t cut) {
  EventStreamReader reader;
  Events events = reader.Take(std::string_view(bytes).substr(0, cut));
  const Events rest = reader.Take(std::string_view(bytes).substr(cut));
  events.insert(events.end(), rest.begin(), rest.end());
  return events;
}

TEST(BenchServeEventsTest, EveryCutGivesTheSameEvents) {
  const std::string lines =
      "\xEF\xBB\xBF"
      "data: one\n\n: a comment\nevent: x\nid: 3\ndata:two\ndata\ndata:  lines\n\n\n\nretry: 5\n\n"
      "data: [DONE]\n\ndata: never ends";
  const Events expected = {"one", "two\n\n lines", "[DONE]"};
  std::string returns = lines;
  std::replace(returns.begin(), returns.end(), '\n', '\r');
  std::string both;
  for (const char c : lines) both += c == '\n' ? "\r\n" : std::string(1, c);
  for (const std::string& bytes : {lines, returns, both}) {
    EXPECT_EQ(ReadWhole(bytes), expected);
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      EXPECT_EQ(ReadInTwo(bytes, cut), expected) << cut;
    }
    EventStreamReader reader;
    Events events;
    for (const char c : bytes) {
      for (const std::string& event : reader.Take(std::string(1, c))) events.push_back(event);
    }
    EXPECT_EQ(events, expected);
  }
}

TEST(BenchServeEventsTest, WhatIsNoDataIsNoEvent) {
  EXPECT_THAT(ReadWhole(": ping\n\n"), IsEmpty());
  EXPECT_THAT(ReadWhole("data:\n\n"), IsEmpty());
  EXPECT_THAT(ReadWhole("dataset: x\n\n"), IsEmpty());
  EXPECT_THAT(ReadWhole("Data: x\n\n"), IsEmpty());
  EXPECT_THAT(ReadWhole("data: x\n"), IsEmpty());
  EXPECT_THAT(ReadWhole("data: {\"a\": \"b: c\"}\n\n"), ElementsAre("{\"a\": \"b: c\"}"));
}

TEST(BenchServeEventsTest, AnEventThatNeverEndsIsGivenUp) {
  EventStreamReader reader;
  const std::string piece(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 16; ++i) EXPECT_THAT(reader.Take(piece), IsEmpty());
  EXPECT_FALSE(reader.overflowed());
  EXPECT_THAT(reader.Take("x"), IsEmpty());
  EXPECT_TRUE(reader.overflowed());
  EXPECT_THAT(reader.Take("\n\ndata: x\n\n"), IsEmpty());
}

}  // namespace
}  // namespace swiftkv
