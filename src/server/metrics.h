// SPDX-License-Identifier: Apache-2.0
// Writes the metrics as Prometheus reads them, and the document that explains them.
//
// The only place that sees the Prometheus client library. Nothing is kept between two scrapes: a
// scrape is a view of the engine's and the server's own counts, which never fall.
#pragma once

#include <string>

#include "server/metrics_table.h"

namespace swiftkv {

// Of the text exposition format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Returns the exposition; every series is labelled with the model's name and, as with vLLM, the
// number of the engine.
std::string MetricsText(const MetricSources& sources, const std::string& model_name);

// Returns docs/metrics.md.
std::string MetricsDocument();

}  // namespace swiftkv
