// SPDX-License-Identifier: Apache-2.0
// Tests that the chart is well formed, complete and to scale.
#include "tools/bench_waste_chart.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::Not;

WasteBenchResult TwoRows() {
  WasteBenchResult result;
  result.steps = 10;
  result.rows = {{.allocator = "paged",
                  .format = "f16",
                  .geometry = "a<b>&\"c\"",
                  .slots = {0.97, 0.02, 0.01, 0},
                  .waste_bytes_fraction = 0.031},
                 {.allocator = "paged",
                  .format = "int4",
                  .geometry = "a<b>&\"c\"",
                  .slots = {0.5, 0.5, 0, 0},
                  .waste_bytes_fraction = 0.042},
                 {.allocator = "contiguous_max",
                  .format = "f16",
                  .geometry = "a<b>&\"c\"",
                  .slots = {0.25, 0.25, 0.25, 0.25},
                  .waste_bytes_fraction = 0.75}};
  result.block_sizes = {{.block_tokens = 16, .slots = {0.9, 0.1, 0, 0}}};
  return result;
}

TEST(BenchWasteChartTest, BarsAreToScaleAndFiguresCoverAllFormats) {
  const std::string svg = WasteBenchSvg(TwoRows(), {});
  EXPECT_THAT(svg, HasSubstr("3.1 to 4.2 %"));
  EXPECT_THAT(svg, HasSubstr(">75.0 %<"));
  double total = 0;
  int segments = 0;
  const std::regex segment("width=\"([0-9.]+)\" height=\"20\"");
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), segment);
       it != std::sregex_iterator(); ++it) {
    total += std::stod((*it)[1]);
    ++segments;
  }
  EXPECT_EQ(segments, 3 + 4 + 2) << "shares of 0 are not drawn, further formats have no bar";
  EXPECT_NEAR(total, 3 * 560, 0.1) << "three bars of full length";
}

TEST(BenchWasteChartTest, TextIsEscapedAndNothingIsLoadedOrRun) {
  const std::string svg = WasteBenchSvg(TwoRows(), {});
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;&amp;&quot;c&quot;"));
  for (const char* word : {"a<b>", "<script", "href", "url(", "@import", "nan", "inf"}) {
    EXPECT_THAT(svg, Not(HasSubstr(word)));
  }
  // Every element that is opened is closed.
  const auto count = [&](const std::string& pattern) {
    const std::regex expression(pattern);
    return std::distance(std::sregex_iterator(svg.begin(), svg.end(), expression),
                         std::sregex_iterator());
  };
  for (const char* name : {"svg", "text", "title"}) {
    EXPECT_EQ(count(fmt::format("<{}[ >]", name)), count(fmt::format("</{}>", name)));
  }
  EXPECT_EQ(count("<rect[ >]"), count("</rect>") + count("<rect[^<]*/>"));
}

TEST(BenchWasteChartTest, AResultWithoutRowsIsAChartWithoutBars) {
  EXPECT_THAT(WasteBenchSvg({}, {}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace swiftkv
