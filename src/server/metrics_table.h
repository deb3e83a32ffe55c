// SPDX-License-Identifier: Apache-2.0
// Lists every metric of /metrics once: its name, what it means and where its value comes from.
//
// The exposition, docs/metrics.md and the tests walk the table; a new metric is one row. Values of
// labels come from fixed lists, the operator's name of the model and the table of formats, never
// from the text of a request: the number of series is bounded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_statistics.h"
#include "server/server_statistics.h"

namespace swiftkv {

// What metrics are read from.
struct MetricSources {
  EngineReport engine;
  ServerStatistics server;
  std::string kv_format;  // of requests that name none
};

enum class MetricKind : std::uint8_t { kCounter, kGauge, kHistogram };

// Returns "counter", "gauge" or "histogram".
const char* MetricKindName(MetricKind kind);

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// One series: a value, or a histogram that lives in the sources.
struct MetricSample {
  MetricLabels labels = {};  // beside those that every series has
  double value = 0;
  const Histogram* histogram = nullptr;
};

struct MetricRow {
  const char* name;
  MetricKind kind;
  const char* unit;    // of the value; "" for a plain number
  const char* labels;  // beside those that every series has, as the document names them
  const char* help;    // one sentence without a line break
  std::vector<MetricSample> (*read)(const MetricSources&);
};

// In the order of the document.
std::span<const MetricRow> MetricTable();

}  // namespace swiftkv
