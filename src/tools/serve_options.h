// SPDX-License-Identifier: Apache-2.0
// Holds all options of `swiftkv serve` and reads them from its command line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "server/http_options.h"
#include "swiftkv/engine.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct AccessOptions {
  std::vector<std::string> api_keys;
  std::vector<std::string> admin_keys;
  std::string api_key_file;
  std::string admin_key_file;
};

struct ServeOutputOptions {
  std::string model_name;
  bool json = false;
  bool verbose = false;
};

struct ServeOptions {
  HttpOptions http;
  AccessOptions access;
  EngineLimits limits;
  ServeOutputOptions output;
  ModelOptions model;
  CacheOptions cache;
  Forgetting forgetting;
};

template <typename Visitor>
void VisitOptions(Visitor&& visit, AccessOptions& options) {
  visit(OptionField{"--api-key", "api_keys", "KEY",
                    "Key that clients send as a bearer token; each is a tenant of its own, whose "
                    "prompts no other finds in the cache (again for more)"},
        options.api_keys);
  visit(OptionField{"--admin-key", "admin_keys", "KEY",
                    "Key of operators' routes; without one those answer on loopback only (again "
                    "for more)"},
        options.admin_keys);
  visit(OptionField{"--api-key-file", "api_key_file", "FILE",
                    "File with further API keys, one a line, which the list of processes does not "
                    "show"},
        options.api_key_file);
  visit(OptionField{"--admin-key-file", "admin_key_file", "FILE",
                    "File with further keys of operators, one a line"},
        options.admin_key_file);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, ServeOutputOptions& options) {
  visit(OptionField{"--served-model-name", "served_model_name", "NAME",
                    "What requests call the model (default: the file's name without .gguf)"},
        options.model_name);
  visit(OptionField{"--json", "json", "",
                    "Print one JSON object on one line once the server listens"},
        options.json);
  visit(OptionField{"-v,--verbose", "verbose", "", "Log what is done to standard error"},
        options.verbose);
}

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, ServeOptions& options) {
  visit.Group("Server");
  VisitOptions(visit, options.http);
  VisitOptions(visit, options.access);
  VisitOptions(visit, options.limits);
  visit.Group("Output");
  VisitOptions(visit, options.output);
  visit.Group("Model");
  VisitOptions(visit, options.model);
  visit.Group("KV cache");
  VisitOptions(visit, options.cache);
  VisitOptions(visit, options.forgetting);
}

// Reads the arguments that follow `serve`. Errors: InvalidArgument for what can never work, before
// anything is loaded; Cancelled with the help as its message where help was asked for.
Result<ServeOptions> ParseServeOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
