// SPDX-License-Identifier: Apache-2.0
// Tests which characters of JSON text are taken for its structure.
#include "base/json_marks.h"

#include <gtest/gtest.h>

#include <string>

namespace swiftkv {
namespace {

std::string Marks(std::string_view text, std::size_t most = 100) {
  std::string marks;
  ForEachJsonMark(text, [&](char mark) {
    marks += mark;
    return marks.size() < most;
  });
  return marks;
}

TEST(JsonMarksTest, WhatStandsInStringsIsNone) {
  EXPECT_EQ(Marks(R"({"a": [1, 2], "b[": {"c": "},\"]"}})"), "{[,],{}}");
  EXPECT_EQ(Marks(R"(["\\", "\\\"[", 3])"), "[,,]");
}

TEST(JsonMarksTest, TextNeedNotBeWellFormed) {
  EXPECT_EQ(Marks("]]}{,"), "]]}{,");
  EXPECT_EQ(Marks(R"([")"), "[");
  EXPECT_EQ(Marks("[\"\\"), "[");
  EXPECT_EQ(Marks(""), "");
}

TEST(JsonMarksTest, ItEndsWhereNoMoreIsWanted) { EXPECT_EQ(Marks("[[[[[[", 3), "[[["); }

}  // namespace
}  // namespace swiftkv
