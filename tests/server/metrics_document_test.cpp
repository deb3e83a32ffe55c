// SPDX-License-Identifier: Apache-2.0
// Keeps docs/metrics.md equal to the table of metrics, and the examples that use them true to it.
//
// Run with SWIFTKV_UPDATE_DOCS=1 to write the document anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "server/metrics.h"

namespace swiftkv {
namespace {

using Json = nlohmann::json;

constexpr const char* kDocument = SWIFTKV_SOURCE_DIR "/docs/metrics.md";
constexpr const char* kDashboard = SWIFTKV_SOURCE_DIR "/examples/grafana/swiftkv.json";

std::string ReadWhole(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Every query of the dashboard, of panels and of variables.
std::vector<std::string> Queries(const Json& dashboard) {
  std::vector<std::string> queries;
  for (const Json& panel : dashboard["panels"]) {
    for (const Json& target : panel.value("targets", Json::array())) {
      queries.push_back(target["expr"].get<std::string>());
    }
  }
  for (const Json& variable : dashboard["templating"]["list"]) {
    queries.push_back(variable["query"].get<std::string>());
  }
  return queries;
}

TEST(MetricsDocumentTest, ListsEveryMetricAsTheServerHasIt) {
  if (std::getenv("SWIFTKV_UPDATE_DOCS") != nullptr) std::ofstream(kDocument) << MetricsDocument();
  EXPECT_EQ(ReadWhole(kDocument), MetricsDocument()) << "SWIFTKV_UPDATE_DOCS=1 writes it anew";
}

TEST(MetricsDocumentTest, TheDashboardUsesMetricsThatExistAsWhatTheyAre) {
  const Json dashboard = Json::parse(ReadWhole(kDashboard), nullptr, false);
  ASSERT_TRUE(dashboard.is_object());
  const std::regex name("(vllm:|swiftkv_|process_)[a-z0-9_]+");
  std::set<std::string> used;
  for (const std::string& query : Queries(dashboard)) {
    for (std::sregex_iterator i(query.begin(), query.end(), name), end; i != end; ++i) {
      used.insert(i->str());
      const bool is_rate =
          query.substr(0, static_cast<std::size_t>(i->position())).ends_with("rate(");
      bool known = false;
      for (const MetricRow& row : MetricTable()) {
        const std::string whole = row.name;
        const bool of_histogram = row.kind == MetricKind::kHistogram;
        known |= of_histogram ? i->str() == whole + "_bucket" || i->str() == whole + "_sum" ||
                                    i->str() == whole + "_count"
                              : i->str() == whole && is_rate == (row.kind == MetricKind::kCounter);
      }
      EXPECT_TRUE(known) << i->str() << " in " << query;
    }
  }
  EXPECT_GT(used.size(), 30U);
}

TEST(MetricsDocumentTest, PanelsOfTheDashboardDoNotOverlap) {
  const Json dashboard = Json::parse(ReadWhole(kDashboard), nullptr, false);
  std::set<std::pair<int, int>> taken;
  std::set<int> ids;
  for (const Json& panel : dashboard["panels"]) {
    EXPECT_TRUE(ids.insert(panel["id"].get<int>()).second) << panel["title"];
    const Json& place = panel["gridPos"];
    EXPECT_LE(place["x"].get<int>() + place["w"].get<int>(), 24);
    for (int x = 0; x < place["w"].get<int>(); ++x) {
      for (int y = 0; y < place["h"].get<int>(); ++y) {
        const bool free =
            taken.insert({place["x"].get<int>() + x, place["y"].get<int>() + y}).second;
        ASSERT_TRUE(free) << panel["title"];
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv
