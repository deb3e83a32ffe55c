// SPDX-License-Identifier: Apache-2.0
// Tests the exposition of /metrics: its form, who may read it, and values that requests leave.
#include "server/metrics.h"

#include <map>
#include <set>
#include <sstream>

#include "base/utf8.h"
#include "server/served_tiny_model.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kLabels = "model_name=\"tiny\",engine=\"0\"";

// Reads an exposition; fails the test where a line is none of the format's.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) Read(line);
  }

  // Of a series without labels of its own, or with these.
  double Value(const std::string& name, const std::string& own_labels = "") const {
    const std::string key =
        name + "{" + kLabels + (own_labels.empty() ? "" : "," + own_labels) + "}";
    const auto found = values_.find(key);
    EXPECT_NE(found, values_.end()) << key;
    return found == values_.end() ? -1 : found->second;
  }
  const std::map<std::string, double>& values() const { return values_; }
  const std::map<std::string, std::string>& types() const { return types_; }

 private:
  void Read(const std::string& line) {
    std::istringstream words(line);
    std::string first;
    std::string kind;
    std::string name;
    words >> first;
    if (first == "#") {
      words >> kind >> name;
      if (kind == "TYPE") {
        EXPECT_EQ(types_.count(name), 0U) << "told twice: " << name;
        words >> types_[name];
      } else {
        EXPECT_EQ(kind, "HELP") << line;
      }
      return;
    }
    const std::size_t end = line.rfind(' ');
    ASSERT_NE(end, std::string::npos) << line;
    const std::string series = line.substr(0, end);
    EXPECT_EQ(values_.count(series), 0U) << "told twice: " << series;
    std::size_t read = 0;
    values_[series] = std::stod(line.substr(end + 1), &read);
    EXPECT_EQ(read, line.size() - end - 1) << line;
  }

  std::map<std::string, double> values_;
  std::map<std::string, std::string> types_;
};

HttpReply Ask(ServedTinyModel* served, bool from_loopback, const std::string& key = "") {
  HttpRequest request{.method = "GET", .path = "/metrics", .authorization = "", .body = ""};
  if (!key.empty()) request.authorization = "Bearer " + key;
  request.from_loopback = from_loopback;
  return served->api().Handle(request, [] {}).reply;
}

Exposition Scrape(ServedTinyModel* served) {
  const HttpReply reply = Ask(served, /*from_loopback=*/true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.content_type, "text/plain; version=0.0.4; charset=utf-8");
  return Exposition(reply.body);
}

// Waits until the engine has told of so many ends.
void AwaitEnds(ServedTinyModel* served, std::uint64_t requests) {
  while (served->tiny().engine->Snapshot().finished_requests < requests) std::this_thread::yield();
}

Json Completion(const std::vector<TokenId>& prompt, int max_tokens) {
  return {{"prompt", prompt}, {"max_tokens", max_tokens}, {"ignore_eos", true}, {"temperature", 0}};
}

TEST(MetricsTest, TellsEveryMetricOfTheTableOnceWithItsKind) {
  ServedTinyModel served;
  const Exposition told = Scrape(&served);
  EXPECT_EQ(told.types().size(), MetricTable().size());
  for (const MetricRow& row : MetricTable()) {
    ASSERT_EQ(told.types().count(row.name), 1U) << row.name;
    EXPECT_EQ(told.types().at(row.name), MetricKindName(row.kind)) << row.name;
    const std::string name = row.name;
    EXPECT_TRUE(name.starts_with("vllm:") || name.starts_with("swiftkv_") ||
                name.starts_with("process_"))
        << name;
    EXPECT_TRUE(row.kind != MetricKind::kCounter || name.ends_with("_total")) << name;
  }
}

TEST(MetricsTest, IsForOperatorsOnly) {
  ServedTinyModel open;
  EXPECT_EQ(Ask(&open, true).status, 200);
  EXPECT_EQ(Ask(&open, false).status, 401);
  ServedTinyModel closed({.keys = {"one"}, .admin_keys = {"root"}});
  EXPECT_EQ(Ask(&closed, true).status, 401);
  EXPECT_EQ(Ask(&closed, true, "one").status, 401);
  EXPECT_EQ(Ask(&closed, false, "root").status, 200);
}

TEST(MetricsTest, ValuesAreThoseOfTheRequests) {
  ServedTinyModel served;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(served.PostJson("/v1/completions", Completion(TinyPrompt(97), 5)).status, 200);
  }
  AwaitEnds(&served, 2);
  const Exposition told = Scrape(&served);
  EXPECT_EQ(told.Value("vllm:request_success_total", "finished_reason=\"length\""), 2);
  EXPECT_EQ(told.Value("vllm:request_success_total", "finished_reason=\"abort\""), 0);
  EXPECT_EQ(told.Value("vllm:prompt_tokens_total"), 2 * 97);
  EXPECT_EQ(told.Value("vllm:generation_tokens_total"), 10);
  EXPECT_EQ(told.Value("vllm:prefix_cache_queries_total"), 2 * 97);
  EXPECT_EQ(told.Value("vllm:prefix_cache_hits_total"), 96) << "all but the last token";
  EXPECT_EQ(told.Value("vllm:num_requests_running"), 0);
  EXPECT_EQ(told.Value("vllm:num_requests_waiting"), 0);
  EXPECT_EQ(told.Value("vllm:kv_cache_usage_perc"), 0) << "what is only cached is free";
  EXPECT_EQ(told.Value("swiftkv_prefix_ends_total", "reason=\"whole_prompt\""), 1);
  EXPECT_GT(told.Value("swiftkv_kv_bytes", "state=\"cached\""), 0);
  EXPECT_EQ(told.Value("vllm:time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(told.Value("vllm:inter_token_latency_seconds_count"), 8);
  EXPECT_EQ(told.Value("vllm:request_prompt_tokens_sum"), 2 * 97);
  EXPECT_EQ(told.Value("vllm:request_prompt_tokens_bucket", "le=\"50\""), 0);
  EXPECT_EQ(told.Value("vllm:request_prompt_tokens_bucket", "le=\"100\""), 2);
  EXPECT_EQ(told.Value("vllm:request_prompt_tokens_bucket", "le=\"+Inf\""), 2);
}

TEST(MetricsTest, AReplyThatEndsAtAStopStringWasServed) {
  ServedTinyModel served;
  Json body = Completion(TinyPrompt(20), 60);
  const std::string text =
      served.PostJson("/v1/completions", body).body["choices"][0]["text"].get<std::string>();
  const std::size_t size = ValidUtf8Prefix(std::string_view(text).substr(0, 12));
  ASSERT_GT(size, 0U);
  body["stop"] = text.substr(0, size);
  const ApiReply stopped = served.PostJson("/v1/completions", body);
  EXPECT_EQ(stopped.body["choices"][0]["finish_reason"], "stop");
  AwaitEnds(&served, 2);
  const Exposition told = Scrape(&served);
  // The engine may have come to the cap before it heard of the stop string.
  EXPECT_EQ(told.Value("vllm:request_success_total", "finished_reason=\"stop\"") +
                told.Value("vllm:request_success_total", "finished_reason=\"length\""),
            2);
  EXPECT_EQ(told.Value("vllm:request_success_total", "finished_reason=\"abort\""), 0);
}

TEST(MetricsTest, StatesOfBytesAddUpToWhatIsMapped) {
  ServedTinyModel served;
  served.PostJson("/v1/completions", Completion(TinyPrompt(90), 3));
  AwaitEnds(&served, 1);
  const Exposition told = Scrape(&served);
  double sum = 0;
  for (const char* state : {"live_private", "live_shared", "cached", "free", "metadata"}) {
    sum += told.Value("swiftkv_kv_bytes", std::string("state=\"") + state + "\"");
  }
  EXPECT_EQ(sum, told.Value("swiftkv_kv_mapped_bytes"));
  EXPECT_LE(sum, told.Value("swiftkv_kv_limit_bytes"));
  EXPECT_LE(told.Value("swiftkv_kv_waste_fraction"), 1);
}

TEST(MetricsTest, RefusedRequestsAreCountedByReason) {
  ServedTinyModel served({.keys = {"one"}, .admin_keys = {}});
  served.Get("/nowhere");
  served.Get("/tokenize");
  served.Post("/v1/completions", "{}", "two");
  served.Post("/v1/completions", "{", "one");
  served.Post("/v1/completions", "{}", "one");
  served.Post("/v1/completions", "{}", "one");
  const Exposition told = Scrape(&served);
  const auto refused = [&told](const std::string& reason) {
    return told.Value("swiftkv_requests_refused_total", "reason=\"" + reason + "\"");
  };
  EXPECT_EQ(refused("not_found"), 2);
  EXPECT_EQ(refused("unauthorized"), 1);
  EXPECT_EQ(refused("invalid"), 3);
  EXPECT_EQ(refused("queue_full"), 0);
}

TEST(MetricsTest, NothingThatAClientSaysBecomesALabel) {
  ServedTinyModel served;
  std::set<std::string> before;
  const auto series = [&served] {
    std::set<std::string> names;
    const Exposition told = Scrape(&served);
    for (const auto& [name, value] : told.values()) names.insert(name);
    return names;
  };
  before = series();
  const std::string odd = "odd\"\n{}";
  served.PostJson("/v1/completions", Json{{"prompt", odd}, {"model", odd}});
  served.PostJson("/v1/completions",
                  Json{{"prompt", odd}, {"max_tokens", 2}, {"cache_salt", odd}, {"user", odd}});
  served.PostJson("/v1/completions", Json{{"prompt", odd}, {"kv_format", odd}});
  served.Get("/" + odd);
  EXPECT_EQ(series(), before);
}

TEST(MetricsTest, QuotesTheModelsName) {
  const std::string text = MetricsText(MetricSources(), "a\"b\\c\nd");
  EXPECT_THAT(text, HasSubstr("model_name=\"a\\\"b\\\\c\\nd\""));
  EXPECT_THAT(text, StartsWith("# HELP "));
}

}  // namespace
}  // namespace swiftkv
