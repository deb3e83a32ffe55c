// SPDX-License-Identifier: Apache-2.0
// Loads a server and records what each request saw.
//
// Closed loop: each of so many clients sends its next request when a reply has ended. Open loop:
// requests arrive at random times, whatever the server does. A request that fails is recorded and
// never ends the load.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "swiftkv/status.h"
#include "tools/bench_serve_figures.h"
#include "tools/bench_serve_options.h"

namespace swiftkv {

struct ServeLoadResult {
  std::string model;      // as requests named it; empty: they did not
  bool sent_ids = false;  // prompts were token ids
  bool told_ids = false;  // of those, the server's tokenizer named them
  // Whether a prompt has as many tokens as planned: ids do, words where the tokenizer says so.
  bool exact_prompts = false;
  int warmups_completed = 0;
  double duration = 0;  // seconds, from the first request to the end of the last
  bool interrupted = false;
  std::vector<ServeRecord> records;  // in the order in which they ended
};

// Called about ten times a second; returning false ends the load, without what is under way.
using ServeProgress = std::function<bool(double done, int ended, int under_way, int failed)>;

// Errors: NotFound where the host has no address. A server that refuses everything is no error
// here.
Result<ServeLoadResult> RunServeLoad(const BenchServeOptions& options,
                                     const ServeProgress& progress);

}  // namespace swiftkv
