// SPDX-License-Identifier: Apache-2.0
// Formats the figures of `bench serve`.
#include "tools/bench_serve_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "tools/options_json.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

// Figures of a clock need no more digits than this.
double Rounded(double value) { return std::round(value * 1e6) / 1e6; }

void AddSpread(const char* name, const ServeSpread& spread, Json* object) {
  const auto add = [&](const char* statistic, double value) {
    (*object)[fmt::format("{}_{}_ms", statistic, name)] = Rounded(value);
  };
  add("mean", spread.mean);
  add("median", spread.median);
  add("std", spread.std);
  add("p90", spread.p90);
  add("p99", spread.p99);
}

// Lists in the order in which requests ended; times in seconds, as vLLM's.
void AddDetails(const ServeLoadResult& result, Json* object) {
  for (const char* key : {"input_lens", "output_lens", "ttfts", "itls", "start_times", "errors"}) {
    (*object)[key] = Json::array();
  }
  for (const ServeRecord& record : result.records) {
    (*object)["input_lens"].push_back(record.prompt_tokens);
    (*object)["output_lens"].push_back(record.output_tokens);
    (*object)["ttfts"].push_back(Rounded(record.ttft));
    (*object)["start_times"].push_back(Rounded(record.start));
    (*object)["errors"].push_back(record.failure.empty() ? ""
                                                         : record.failure + ": " + record.detail);
    Json itls = Json::array();
    for (const double itl : record.itls) itls.push_back(Rounded(itl));
    (*object)["itls"].push_back(std::move(itls));
  }
}

const char* OutputCountedBy(const ServeFigures& figures) {
  if (figures.counted_by_events == 0) return "usage";
  return figures.counted_by_events == figures.completed ? "events" : "usage and events";
}

const char* IdSource(const ServeLoadResult& result) {
  if (!result.sent_ids) return "none";
  return result.told_ids ? "tokenizer" : "range";
}

Json OwnJson(const ServeLoadResult& result, const ServeFigures& figures,
             const BenchServeOptions& options) {
  const ServeWorkloadOptions& workload = options.workload;
  Json failures = Json::object();
  for (const auto& [kind, count] : figures.failures) {
    failures[kind] = {{"count", count}, {"example", figures.examples.at(kind)}};
  }
  return {{"url", options.target.url},
          {"workload", workload.workload},
          {"prefix_tokens", workload.prefix_tokens},
          {"own_tokens", workload.own_tokens},
          {"output_tokens", workload.output_tokens},
          {"turns", workload.turns},
          {"seed", workload.seed},
          {"ignore_eos", workload.ignore_eos},
          {"prompt", result.sent_ids ? "ids" : "text"},
          {"prompt_ids_from", IdSource(result)},
          {"exact_prompts", result.exact_prompts},
          {"cached_tokens", figures.told_cached > 0 ? Json(figures.cached_tokens) : Json()},
          {"output_counted_by", OutputCountedBy(figures)},
          {"warmups_completed", result.warmups_completed},
          {"disconnected", figures.disconnected},
          {"retries", figures.retries},
          {"interrupted", result.interrupted},
          {"failures", std::move(failures)}};
}

std::string SpreadRow(const char* name, const ServeSpread& spread) {
  return fmt::format("{:<26}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, spread.mean,
                     spread.median, spread.std, spread.p90, spread.p99);
}

std::string LoadWords(const BenchServeOptions& options) {
  const int clients = options.most_clients();
  if (options.load.rate <= 0) return fmt::format("{} clients", clients);
  std::string words = fmt::format("{} arrivals a second", options.load.rate);
  if (clients > 0) words += fmt::format(", at most {} at once", clients);
  return words;
}

}  // namespace

std::string FailureSummary(const ServeFigures& figures) {
  std::string summary;
  for (const auto& [kind, count] : figures.failures) {
    summary += fmt::format("{}{} {} ({})", summary.empty() ? "" : ", ", count, kind,
                           PrintableExcerpt(figures.examples.at(kind), 120));
  }
  return summary;
}

std::string BenchServeJson(const ServeLoadResult& result, const ServeFigures& figures,
                           const BenchServeOptions& options) {
  const int clients = options.most_clients();
  const char* const backend = options.chat() ? "openai-chat" : "openai";
  Json object = {{"date", fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(std::time(nullptr)))},
                 {"backend", backend},
                 {"endpoint_type", backend},
                 {"label", nullptr},
                 {"model_id", result.model},
                 {"tokenizer_id", result.model},
                 {"num_prompts", result.records.size()},
                 {"request_rate", options.load.rate > 0 ? Json(options.load.rate) : Json("inf")},
                 {"burstiness", options.load.burstiness},
                 {"max_concurrency", clients > 0 ? Json(clients) : Json()},
                 {"duration", Rounded(figures.duration)},
                 {"completed", figures.completed},
                 {"failed", figures.failed},
                 {"total_input_tokens", figures.input_tokens},
                 {"total_output_tokens", figures.output_tokens},
                 {"request_throughput", Rounded(figures.request_throughput)},
                 {"request_goodput",
                  options.report.goodput.empty() ? Json() : Json(Rounded(figures.request_goodput))},
                 {"output_throughput", Rounded(figures.output_throughput)},
                 {"total_token_throughput", Rounded(figures.total_token_throughput)},
                 {"max_output_tokens_per_s", figures.peak_output_tokens},
                 {"max_concurrent_requests", figures.peak_requests}};
  AddSpread("ttft", figures.ttft, &object);
  AddSpread("tpot", figures.tpot, &object);
  AddSpread("itl", figures.itl, &object);
  AddSpread("e2el", figures.e2el, &object);
  if (options.report.detailed) AddDetails(result, &object);
  object["swiftkv"] = OwnJson(result, figures, options);
  return JsonLine(object);
}

std::string BenchServeText(const ServeLoadResult& result, const ServeFigures& figures,
                           const BenchServeOptions& options) {
  std::string text = fmt::format(
      "{} at {}: {}, {}\n\n"
      "{} of {} requests in {:.2f} s: {:.2f} requests/s, {:.1f} output tokens/s, {:.1f} tokens/s\n"
      "{} tokens in, {} out",
      PrintableLine(result.model.empty() ? "the server's model" : result.model), options.target.url,
      options.workload.workload, LoadWords(options), figures.completed, result.records.size(),
      figures.duration, figures.request_throughput, figures.output_throughput,
      figures.total_token_throughput, figures.input_tokens, figures.output_tokens);
  if (figures.told_cached > 0)
    text += fmt::format(", {} found in the cache", figures.cached_tokens);
  text += fmt::format("; at most {} requests at once\n", figures.peak_requests);
  if (!options.report.goodput.empty()) {
    text += fmt::format("{:.2f} requests/s within {}\n", figures.request_goodput,
                        options.report.goodput);
  }
  if (figures.counted_by_events > 0) {
    text += fmt::format("{} replies told no usage: their tokens are counted by events\n",
                        figures.counted_by_events);
  }
  if (!result.exact_prompts) {
    text += "the server has no tokenizer to ask: lengths of prompts are estimates\n";
  }
  if (figures.disconnected > 0) text += fmt::format("{} left on purpose\n", figures.disconnected);
  if (figures.retries > 0) text += fmt::format("{} sent again after 429 or 503\n", figures.retries);
  if (figures.failed > 0) {
    text += fmt::format("{} failed: {}\n", figures.failed, FailureSummary(figures));
  }
  text += fmt::format("\n{:<26}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "mean", "median",
                      "std", "p90", "p99");
  text += SpreadRow("time to first token", figures.ttft);
  text += SpreadRow("per token after the first", figures.tpot);
  text += SpreadRow("between tokens", figures.itl);
  text += SpreadRow("to the end", figures.e2el);
  return text;
}

}  // namespace swiftkv
