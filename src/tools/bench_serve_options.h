// SPDX-License-Identifier: Apache-2.0
// Holds the options of `swiftkv bench serve` and reads them from its command line.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "engine/option_field.h"
#include "swiftkv/status.h"

namespace swiftkv {

enum class ServeWorkloadKind { kShared, kUnique, kShareGpt, kAlpaca, kMultiTurn };

// Clients of a closed loop where the user gives neither a number nor a rate, and requests where he
// gives neither a number nor a duration.
inline constexpr int kServeClients = 16;
inline constexpr int kServeRequests = 64;

struct ServeTargetOptions {
  std::string url;
  std::string endpoint = "completions";
  std::string model;
  std::string api_key;
  std::string extra_body;  // a JSON object
  int timeout_seconds = 600;
  int retries = 0;
};

struct ServeLoadOptions {
  int clients = 0;       // 0: kServeClients, or no bound with a rate
  float rate = 0;        // conversations a second; 0: each client starts its next when one ended
  float burstiness = 1;  // shape of the gamma distribution of gaps; 1: Poisson
  int requests = 0;      // 0: kServeRequests, or no bound with a duration
  int duration_seconds = 0;
  int warmup = 0;
  bool warm_prefix = false;
  float disconnect_share = 0;  // in [0, 1]
};

struct ServeWorkloadOptions {
  std::string workload = "shared";
  std::string prompt = "auto";
  int prefix_tokens = 1900;
  int own_tokens = 20;
  int output_tokens = 64;
  int turns = 4;
  int seed = 1;
  bool ignore_eos = false;
  float temperature = 0;
};

struct ServeReportOptions {
  std::string goodput;
  bool detailed = false;
  bool json = false;
};

struct BenchServeOptions {
  ServeTargetOptions target;
  ServeLoadOptions load;
  ServeWorkloadOptions workload;
  ServeReportOptions report;

  bool chat() const { return target.endpoint == "chat"; }
  // Whether prompts are sent as token ids.
  bool sends_ids() const;
  // Most requests under way at once; 0: no bound.
  int most_clients() const;
  // Requests in all; 0: no bound.
  int most_requests() const;
};

std::string ServeEndpointNames();
std::string ServePromptNames();
std::string ServeWorkloadNames();

// Errors: InvalidArgument with the names.
Result<ServeWorkloadKind> FindServeWorkload(const std::string& name);

template <typename Visitor>
void VisitOptions(Visitor&& visit, ServeTargetOptions& options) {
  visit(OptionField{"URL,--url", "url", "URL", "The server: http://HOST:PORT"}, options.url);
  visit(OptionField{.flags = "--endpoint",
                    .key = "endpoint",
                    .placeholder = "NAME",
                    .help = "What is asked for",
                    .choices = ServeEndpointNames},
        options.endpoint);
  visit(OptionField{"--model", "model", "NAME",
                    "Model that requests name (default: the first that the server lists)"},
        options.model);
  visit(OptionField{"--api-key", "api_key", "KEY", "Sent as a bearer token"}, options.api_key);
  visit(OptionField{"--extra-body", "extra_body", "JSON",
                    "Object whose fields are added to every request"},
        options.extra_body);
  visit(OptionField{"--timeout", "timeout", "SECONDS",
                    "From sending a request to the end of its reply", 1, 86400},
        options.timeout_seconds);
  visit(OptionField{"--retries", "retries", "N",
                    "Times that a request refused by 429 or 503 is sent again, after what "
                    "Retry-After says",
                    0, 1000},
        options.retries);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, ServeLoadOptions& options) {
  visit(OptionField{"--clients,--concurrency", "clients", "N",
                    "Most requests under way at once; 0: 16, or with --rate no bound", 0, 4096},
        options.clients);
  visit(OptionField{"--rate", "rate", "R",
                    "Requests (multi-turn: conversations) that arrive in a second, at random; 0: "
                    "each client sends its next when a reply has ended"},
        options.rate);
  visit(
      OptionField{"--burstiness", "burstiness", "B",
                  "Shape of the gaps with --rate: 1 is Poisson, less comes in bursts, more evenly"},
      options.burstiness);
  visit(OptionField{"--requests", "requests", "N",
                    "Requests in all; 0: 64, or with --duration as many as fit"},
        options.requests);
  visit(OptionField{"--duration", "duration", "SECONDS",
                    "Time in which requests are started; 0: no bound"},
        options.duration_seconds);
  visit(OptionField{"--warmup", "warmup", "N",
                    "Requests before what is measured, with prompts of their own"},
        options.warmup);
  visit(OptionField{"--warm-prefix", "warm_prefix", "",
                    "Those begin with the shared prefix that is measured"},
        options.warm_prefix);
  visit(OptionField{"--disconnect-share", "disconnect_share", "F",
                    "Part of the requests, from 0 to 1, that leave at a random point of the reply"},
        options.disconnect_share);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, ServeWorkloadOptions& options) {
  constexpr int kMost = 1 << 24;
  visit(OptionField{.flags = "--workload",
                    .key = "workload",
                    .placeholder = "NAME",
                    .help = "What prompts have in common and how long they are",
                    .choices = ServeWorkloadNames},
        options.workload);
  visit(OptionField{.flags = "--prompt",
                    .key = "prompt",
                    .placeholder = "KIND",
                    .help = "How prompts are sent",
                    .choices = ServePromptNames},
        options.prompt);
  visit(
      OptionField{"--prefix-tokens", "prefix_tokens", "TOKENS",
                  "First tokens of prompts: the same in all with shared and multi-turn", 0, kMost},
      options.prefix_tokens);
  visit(OptionField{"--own-tokens", "own_tokens", "TOKENS",
                    "Tokens behind them, and of each later turn, other in each request", 1, kMost},
        options.own_tokens);
  visit(OptionField{"--output-tokens", "output_tokens", "TOKENS",
                    "Most tokens of a reply; sharegpt and alpaca have lengths of their own", 1,
                    kMost},
        options.output_tokens);
  visit(OptionField{"--turns", "turns", "N", "Requests of a conversation with multi-turn", 1, 1000},
        options.turns);
  visit(OptionField{"--seed", "seed", "S", "Of prompts, lengths, arrivals and disconnections"},
        options.seed);
  visit(OptionField{"--ignore-eos", "ignore_eos", "",
                    "Ask for replies of full length (a field of vLLM, llama-server and swiftkv)"},
        options.ignore_eos);
  visit(OptionField{"--temperature", "temperature", "T", "Of the random choice; 0: none"},
        options.temperature);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, ServeReportOptions& options) {
  visit(OptionField{"--goodput", "goodput", "LIMITS",
                    "Also count requests within limits in milliseconds: ttft:MS,tpot:MS,e2el:MS or "
                    "some of them"},
        options.goodput);
  visit(OptionField{"--detailed", "detailed", "", "Add lists of every request's figures to --json"},
        options.detailed);
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line, and nothing else"},
        options.json);
}

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, BenchServeOptions& options) {
  visit.Group("Server");
  VisitOptions(visit, options.target);
  visit.Group("Load");
  VisitOptions(visit, options.load);
  visit.Group("Requests");
  VisitOptions(visit, options.workload);
  visit.Group("Report");
  VisitOptions(visit, options.report);
}

// Reads the arguments that follow `bench serve`. Errors: InvalidArgument or Unsupported for what
// can never work, before anything is sent; Cancelled with the help as its message where help was
// asked for.
Result<BenchServeOptions> ParseBenchServeOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
