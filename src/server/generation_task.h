// SPDX-License-Identifier: Apache-2.0
// Holds a checked request for text as plain data: what the engine is asked for, and how the reply
// is told.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/reply_format.h"
#include "swiftkv/request.h"

namespace swiftkv {

enum class ReplyKind : std::uint8_t { kCompletion, kChat, kCompressedPrefix };

struct ReplyOptions {
  ReplyKind kind = ReplyKind::kCompletion;
  bool stream = false;
  bool include_usage = false;             // in a last event of the stream
  int top_logprobs = -1;                  // alternatives told of each token; -1: no logprobs
  std::vector<std::string> stops;         // the reply ends before the first of these
  std::vector<std::int32_t> stop_tokens;  // and before these tokens
  // How reasoning and calls are read from a chat's reply; null: it is content only.
  std::shared_ptr<const ReplyFormat> format = {};
};

struct GenerationTask {
  ReplyOptions reply;
  std::vector<EngineRequest> requests;  // one for each prompt; choices of prompt i follow those
                                        // of prompt i - 1
  std::vector<std::string> echoes;      // text put before the replies to each prompt; or empty
};

}  // namespace swiftkv
