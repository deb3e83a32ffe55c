// SPDX-License-Identifier: Apache-2.0
// Names the parts of a loaded model that requests of the API are served with.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine_thread.h"
#include "model/chat_template.h"
#include "model/vocabulary.h"
#include "swiftkv/quality.h"

namespace swiftkv {

// Everything outlives the server; texts and templates may be used by any thread.
struct ServedModel {
  std::string name;  // as requests call it
  EngineThread* engine = nullptr;
  const Vocabulary* vocabulary = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null where the model has none
  std::string kv_format;                        // of requests that name none
  int context = 0;                              // tokens that one sequence may hold
  std::size_t prompt_bytes = 0;  // of text, that so many tokens may stand for; the API fills it
  std::int64_t created = 0;      // seconds since 1970 at which it was loaded
};

}  // namespace swiftkv
