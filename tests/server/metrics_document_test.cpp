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
constexpr const char* kAlerts = SWIFTKV_SOURCE_DIR "/examples/prometheus/alerts.yml";

std::string ReadWhole(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct MetricUse {
  std::string name;
  bool as_rate = false;
};

std::vector<MetricUse> UsesIn(const std::string& text) {
  const std::regex name("(vllm:|swiftkv_|process_)[a-z0-9_]+");
  std::vector<MetricUse> uses;
  for (std::sregex_iterator i(text.begin(), text.end(), name), end; i != end; ++i) {
    const auto before = text.substr(0, static_cast<std::size_t>(i->position()));
    uses.push_back({.name = i->str(), .as_rate = before.ends_with("rate(")});
  }
  return uses;
}

// Null where no metric has a series of this name.
const MetricRow* RowOf(const std::string& series) {
  for (const MetricRow& row : MetricTable()) {
    if (row.kind != MetricKind::kHistogram && series == row.name) return &row;
    for (const char* part : {"_bucket", "_sum", "_count"}) {
      if (row.kind == MetricKind::kHistogram && series == std::string(row.name) + part) return &row;
    }
  }
  return nullptr;
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
  std::set<std::string> used;
  for (const std::string& query : Queries(dashboard)) {
    for (const MetricUse& use : UsesIn(query)) {
      used.insert(use.name);
      const MetricRow* const row = RowOf(use.name);
      ASSERT_NE(row, nullptr) << use.name << " in " << query;
      EXPECT_EQ(use.as_rate, row->kind != MetricKind::kGauge) << query;
    }
  }
  EXPECT_GT(used.size(), 30U);
}

TEST(MetricsDocumentTest, AlertsUseMetricsThatExist) {
  const std::vector<MetricUse> uses = UsesIn(ReadWhole(kAlerts));
  EXPECT_GT(uses.size(), 4U);
  for (const MetricUse& use : uses) EXPECT_NE(RowOf(use.name), nullptr) << use.name;
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
