// SPDX-License-Identifier: Apache-2.0
// Words the outcome of a reply: one JSON line for programs, a footer for people.
#pragma once

#include <string>

#include "engine/generation.h"
#include "tools/kv_report.h"

namespace swiftkv {

// Returns the JSON object of `run --json` without a line break (docs/json.md).
std::string RunJson(const GenerationResult& result, const KvReport& kv, const std::string& model);

// Returns the lines that follow a reply, each with a line break: tokens and speed, the cache's
// cost, and why a reply ended early where that needs a word.
std::string RunFooter(const GenerationResult& result, const KvReport& kv);

// Returns the one line that follows a turn of a chat.
std::string TurnFooter(const GenerationResult& result, const KvReport& kv);

}  // namespace swiftkv
