// SPDX-License-Identifier: Apache-2.0
// Implements the arithmetic of the figures.
#include "tools/bench_serve_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "tools/printable_text.h"

namespace swiftkv {
namespace {

Status RefusedGoodput(const std::string& text) {
  return Status::InvalidArgument(
      fmt::format("--goodput accepts ttft:MS, tpot:MS and e2el:MS with commas between, got \"{}\"",
                  PrintableExcerpt(text, 60)));
}

bool IsGood(const ServeRecord& record, const GoodputLimits& limits) {
  const auto within = [](double seconds, const std::optional<double>& limit) {
    return !limit || seconds * 1e3 <= *limit;
  };
  return record.completed() && within(record.ttft, limits.ttft) &&
         within(record.tpot().value_or(0), limits.tpot) && within(record.e2el, limits.e2el);
}

// Returns the most events in any of the seconds of the load.
double BusiestSecond(const std::vector<ServeRecord>& records) {
  std::map<long long, int> counts;
  for (const ServeRecord& record : records) {
    for (const double time : record.token_times) ++counts[std::llround(std::floor(time))];
  }
  int most = 0;
  for (const auto& [second, count] : counts) most = std::max(most, count);
  return most;
}

int MostAtOnce(const std::vector<ServeRecord>& records) {
  std::vector<std::pair<double, int>> changes;
  for (const ServeRecord& record : records) {
    changes.emplace_back(record.start, 1);
    changes.emplace_back(record.end, -1);
  }
  std::sort(changes.begin(), changes.end());  // of equal times the ends come first
  int now = 0;
  int most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return most;
}

void Count(const ServeRecord& record, ServeFigures* figures) {
  figures->retries += record.retries;
  if (record.disconnected) {
    ++figures->disconnected;
  } else if (!record.failure.empty()) {
    ++figures->failed;
    ++figures->failures[record.failure];
    figures->examples.emplace(record.failure, record.detail);
  } else {
    ++figures->completed;
    figures->input_tokens += record.prompt_tokens;
    figures->output_tokens += record.output_tokens;
    figures->cached_tokens += std::max(record.cached_tokens, 0);
    figures->told_cached += record.cached_tokens >= 0 ? 1 : 0;
    figures->counted_by_events += record.counted_by_events ? 1 : 0;
  }
}

}  // namespace

std::optional<double> ServeRecord::tpot() const {
  if (output_tokens < 2) return std::nullopt;
  return (e2el - ttft) / (output_tokens - 1);
}

Result<GoodputLimits> ParseGoodput(const std::string& text) {
  GoodputLimits limits;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const bool is_last = part.size() == rest.size();
    rest.remove_prefix(is_last ? part.size() : part.size() + 1);
    const std::size_t colon = part.find(':');
    const std::string_view name = part.substr(0, colon);
    const std::string_view number =
        colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1);
    double value = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool is_number = parsed.ec == std::errc() && !number.empty() &&
                           parsed.ptr == number.data() + number.size() && value > 0 &&
                           std::isfinite(value);
    std::optional<double>* limit = name == "ttft"   ? &limits.ttft
                                   : name == "tpot" ? &limits.tpot
                                   : name == "e2el" ? &limits.e2el
                                                    : nullptr;
    if (limit == nullptr || *limit || !is_number || (!is_last && rest.empty())) {
      return RefusedGoodput(text);
    }
    *limit = value;
  }
  return limits;
}

double Percentile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  const double rank = p / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - static_cast<double>(below));
}

ServeSpread SpreadOf(std::vector<double> seconds) {
  ServeSpread spread;
  if (seconds.empty()) return spread;
  for (double& value : seconds) value *= 1e3;
  std::sort(seconds.begin(), seconds.end());
  const auto count = static_cast<double>(seconds.size());
  spread.mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / count;
  double squares = 0;
  for (const double value : seconds) squares += (value - spread.mean) * (value - spread.mean);
  spread.std = std::sqrt(squares / count);
  spread.median = Percentile(seconds, 50);
  spread.p90 = Percentile(seconds, 90);
  spread.p99 = Percentile(seconds, 99);
  return spread;
}

ServeFigures SumUp(const std::vector<ServeRecord>& records, double duration,
                   const GoodputLimits& limits) {
  ServeFigures figures;
  figures.duration = duration;
  std::vector<double> ttfts;
  std::vector<double> tpots;
  std::vector<double> itls;
  std::vector<double> e2els;
  int good = 0;
  for (const ServeRecord& record : records) {
    Count(record, &figures);
    if (!record.completed()) continue;
    good += IsGood(record, limits) ? 1 : 0;
    ttfts.push_back(record.ttft);
    e2els.push_back(record.e2el);
    itls.insert(itls.end(), record.itls.begin(), record.itls.end());
    if (const std::optional<double> tpot = record.tpot()) tpots.push_back(*tpot);
  }
  if (duration > 0) {
    figures.request_throughput = figures.completed / duration;
    figures.request_goodput = good / duration;
    figures.output_throughput = static_cast<double>(figures.output_tokens) / duration;
    figures.total_token_throughput =
        static_cast<double>(figures.input_tokens + figures.output_tokens) / duration;
  }
  figures.peak_output_tokens = BusiestSecond(records);
  figures.peak_requests = MostAtOnce(records);
  figures.ttft = SpreadOf(std::move(ttfts));
  figures.tpot = SpreadOf(std::move(tpots));
  figures.itl = SpreadOf(std::move(itls));
  figures.e2el = SpreadOf(std::move(e2els));
  return figures;
}

}  // namespace swiftkv
