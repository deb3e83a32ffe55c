// SPDX-License-Identifier: Apache-2.0
// Sums the records of a load up: what vLLM's serving benchmark reports, by its definitions.
//
// Pure arithmetic over plain data. Percentiles interpolate between the two nearest ranks, the
// deviation is that of the whole population, both as NumPy's defaults.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "swiftkv/status.h"

namespace swiftkv {

// One request. Times are seconds; those of the clock count from the start of the load.
struct ServeRecord {
  double start = 0;                 // when it was first sent
  double end = 0;                   // when its last event, or its failure, was known
  double ttft = 0;                  // from the start to the first event with text
  double e2el = 0;                  // from the start to the last event of its choice
  std::vector<double> itls;         // between events with text
  std::vector<double> token_times;  // of those events, of the clock
  int prompt_tokens = 0;
  int output_tokens = 0;
  int cached_tokens = -1;          // -1: the server does not say
  bool counted_by_events = false;  // the server told no usage
  int retries = 0;
  bool disconnected = false;  // left on purpose: neither completed nor failed
  std::string failure;        // kind; empty where it did not fail
  std::string detail;         // of the failure

  bool completed() const { return failure.empty() && !disconnected; }
  // Seconds for each token after the first; nothing where there was none.
  std::optional<double> tpot() const;
};

// Milliseconds; nothing: no limit.
struct GoodputLimits {
  std::optional<double> ttft;
  std::optional<double> tpot;
  std::optional<double> e2el;

  bool any() const { return ttft || tpot || e2el; }
};

// Milliseconds.
struct ServeSpread {
  double mean = 0;
  double median = 0;
  double std = 0;
  double p90 = 0;
  double p99 = 0;
};

struct ServeFigures {
  double duration = 0;  // seconds
  int completed = 0;
  int failed = 0;
  int disconnected = 0;
  int retries = 0;
  long long input_tokens = 0;  // of completed requests, as are the next two
  long long output_tokens = 0;
  long long cached_tokens = 0;
  int told_cached = 0;  // completed requests whose reply says how many were cached
  int counted_by_events = 0;
  double request_throughput = 0;  // a second, as are the next three
  double request_goodput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  double peak_output_tokens = 0;  // events with text in the busiest second
  int peak_requests = 0;          // under way at once
  ServeSpread ttft;
  ServeSpread tpot;
  ServeSpread itl;
  ServeSpread e2el;
  std::map<std::string, int> failures;          // by kind
  std::map<std::string, std::string> examples;  // one detail of each kind
};

// Reads "ttft:200,tpot:50,e2el:3000", or some of these; an empty text has no limits. Errors:
// InvalidArgument.
Result<GoodputLimits> ParseGoodput(const std::string& text);

// Returns the p-th percentile of sorted values, p in [0, 100]; 0 of none.
double Percentile(const std::vector<double>& sorted, double p);

// Returns the spread of seconds in milliseconds.
ServeSpread SpreadOf(std::vector<double> seconds);

// `duration`: seconds from the start to the end of the last request.
ServeFigures SumUp(const std::vector<ServeRecord>& records, double duration,
                   const GoodputLimits& limits);

}  // namespace swiftkv
