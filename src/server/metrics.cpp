// SPDX-License-Identifier: Apache-2.0
// Maps the table's rows to the client library's families and lets it serialise them.
#include "server/metrics.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>

namespace swiftkv {
namespace {

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return prometheus::MetricType::Counter;
    case MetricKind::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric::Histogram ToHistogram(const Histogram& own) {
  prometheus::ClientMetric::Histogram told;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i <= own.bounds.size(); ++i) {
    below += own.counts[i];
    const double bound =
        i < own.bounds.size() ? own.bounds[i] : std::numeric_limits<double>::infinity();
    told.bucket.push_back({.cumulative_count = below, .upper_bound = bound});
  }
  told.sample_count = below;
  told.sample_sum = own.sum;
  return told;
}

prometheus::ClientMetric ToMetric(const MetricSample& sample, MetricKind kind,
                                  const std::string& model_name) {
  prometheus::ClientMetric metric;
  metric.label = {{.name = "model_name", .value = model_name}, {.name = "engine", .value = "0"}};
  for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
  if (kind == MetricKind::kCounter) metric.counter.value = sample.value;
  if (kind == MetricKind::kGauge) metric.gauge.value = sample.value;
  if (kind == MetricKind::kHistogram) metric.histogram = ToHistogram(*sample.histogram);
  return metric;
}

}  // namespace

std::string MetricsText(const MetricSources& sources, const std::string& model_name) {
  std::vector<prometheus::MetricFamily> families;
  for (const MetricRow& row : MetricTable()) {
    prometheus::MetricFamily family;
    family.name = row.name;
    family.help = row.help;
    family.type = TypeOf(row.kind);
    for (const MetricSample& sample : row.read(sources)) {
      family.metric.push_back(ToMetric(sample, row.kind, model_name));
    }
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string MetricsDocument() {
  std::string text =
      "# Metrics\n\n"
      "Made from src/server/metrics_table.cpp by tests/server/metrics_document_test.cpp; do not "
      "edit.\n\n"
      "`GET /metrics` gives them in Prometheus's text format. Every series has the labels "
      "`model_name` and\n"
      "`engine` (always 0). Names that begin with `vllm:` are those of vLLM's V1 engine, with its "
      "labels and\n"
      "buckets, so dashboards and routers made for it work. A choice counts by itself: a request "
      "with `n` = 4\n"
      "is four, as it is there; what is said to be of requests counts it once.\n"
      "`examples/prometheus` and `examples/grafana` scrape and draw them.\n\n"
      "| name | kind | unit | labels | meaning |\n|---|---|---|---|---|\n";
  for (const MetricRow& row : MetricTable()) {
    const std::string labels = *row.labels == '\0' ? "" : fmt::format("`{}`", row.labels);
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, MetricKindName(row.kind),
                        row.unit, labels, row.help);
  }
  return text;
}

}  // namespace swiftkv
