// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv bench serve` and refuses what can never work.
#include "tools/bench_serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "tools/bench_serve_address.h"
#include "tools/bench_serve_figures.h"
#include "tools/flag_visitor.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

struct WorkloadRow {
  const char* name;
  ServeWorkloadKind kind;
};

constexpr std::array<WorkloadRow, 6> kWorkloads = {{
    {"shared", ServeWorkloadKind::kShared},
    {"shared-prefix", ServeWorkloadKind::kShared},
    {"unique", ServeWorkloadKind::kUnique},
    {"sharegpt", ServeWorkloadKind::kShareGpt},
    {"alpaca", ServeWorkloadKind::kAlpaca},
    {"multi-turn", ServeWorkloadKind::kMultiTurn},
}};

Status Refused(const char* flag, const std::string& accepts, const std::string& given) {
  return Status::InvalidArgument(
      fmt::format("{} accepts {}, got \"{}\"", flag, accepts, PrintableExcerpt(given, 60)));
}

Status ValidateTarget(const ServeTargetOptions& target) {
  if (target.url.empty()) {
    return Status::InvalidArgument("a server is needed, as http://HOST:PORT, not: nothing");
  }
  SKV_RETURN_IF_ERROR(ParseServeUrl(target.url).status());
  if (target.endpoint != "completions" && target.endpoint != "chat") {
    return Refused("--endpoint", ServeEndpointNames(), target.endpoint);
  }
  if (std::any_of(target.api_key.begin(), target.api_key.end(),
                  [](char c) { return c <= ' ' || c >= '\x7f'; })) {
    return Status::InvalidArgument("--api-key accepts visible ASCII, not what was given");
  }
  if (target.extra_body.empty()) return Status::Ok();
  const auto body = nlohmann::json::parse(target.extra_body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return Refused("--extra-body", "a JSON object", target.extra_body);
  return Status::Ok();
}

Status ValidateLoad(const ServeLoadOptions& load) {
  if (!(load.rate >= 0)) {
    return Refused("--rate", "a number from 0", fmt::format("{}", load.rate));
  }
  if (!(load.burstiness > 0)) {
    return Refused("--burstiness", "a number above 0", fmt::format("{}", load.burstiness));
  }
  if (!(load.disconnect_share >= 0 && load.disconnect_share <= 1)) {
    return Refused("--disconnect-share", "a number from 0 to 1",
                   fmt::format("{}", load.disconnect_share));
  }
  return Status::Ok();
}

Status ValidateWorkload(const BenchServeOptions& options) {
  const ServeWorkloadOptions& workload = options.workload;
  SKV_ASSIGN_OR_RETURN(const ServeWorkloadKind kind, FindServeWorkload(workload.workload));
  if (!(workload.temperature >= 0)) {
    return Refused("--temperature", "a number from 0", fmt::format("{}", workload.temperature));
  }
  if (workload.prompt == "auto" || workload.prompt == "text") return Status::Ok();
  if (workload.prompt != "ids") return Refused("--prompt", ServePromptNames(), workload.prompt);
  if (options.chat() || kind == ServeWorkloadKind::kMultiTurn) {
    return Status::InvalidArgument(
        fmt::format("--prompt ids belongs to completions of one turn: chats and replies are text; "
                    "got \"{}\"",
                    options.chat() ? "--endpoint chat" : "--workload multi-turn"));
  }
  return Status::Ok();
}

}  // namespace

bool BenchServeOptions::sends_ids() const {
  const Result<ServeWorkloadKind> kind = FindServeWorkload(workload.workload);
  const bool takes_ids = !chat() && kind.ok() && *kind != ServeWorkloadKind::kMultiTurn;
  return takes_ids && workload.prompt != "text";
}

int BenchServeOptions::most_clients() const {
  if (load.clients > 0) return load.clients;
  return load.rate > 0 ? 0 : kServeClients;
}

int BenchServeOptions::most_requests() const {
  if (load.requests > 0) return load.requests;
  return load.duration_seconds > 0 ? 0 : kServeRequests;
}

std::string ServeEndpointNames() { return "completions, chat"; }
std::string ServePromptNames() { return "ids, text, auto (ids where completions have one turn)"; }

std::string ServeWorkloadNames() {
  return "shared (or shared-prefix), unique, sharegpt, alpaca, multi-turn";
}

Result<ServeWorkloadKind> FindServeWorkload(const std::string& name) {
  for (const WorkloadRow& row : kWorkloads) {
    if (name == row.name) return row.kind;
  }
  return Refused("--workload", ServeWorkloadNames(), name);
}

Result<BenchServeOptions> ParseBenchServeOptions(std::span<const char* const> arguments) {
  BenchServeOptions options;
  CLI::App app(
      "Loads an OpenAI-compatible server (swiftkv serve, vLLM, llama-server, ...) over HTTP and\n"
      "measures what its clients see: time to first token, between tokens, to the end, throughput.",
      "swiftkv bench serve");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(ValidateTarget(options.target));
  SKV_RETURN_IF_ERROR(ValidateLoad(options.load));
  SKV_RETURN_IF_ERROR(ValidateWorkload(options));
  SKV_RETURN_IF_ERROR(ParseGoodput(options.report.goodput).status());
  return options;
}

}  // namespace swiftkv
