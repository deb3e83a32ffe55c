// SPDX-License-Identifier: Apache-2.0
// Answers several questions about one text together, printing each reply as it streams in.
//
// The questions share the text as a prefix: it is computed once and held once, whatever the number
// of questions. Run: many_replies MODEL.gguf TEXT_FILE QUESTION...
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "swiftkv/engine.h"

namespace {

int Fail(const swiftkv::Status& status) {
  std::fprintf(stderr, "many_replies: %s\n", status.message().c_str());
  return 1;
}

std::string ReadFile(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr, "usage: many_replies MODEL.gguf TEXT_FILE QUESTION...\n");
    return 2;
  }
  auto engine = swiftkv::Engine::Create({.model_path = arguments[1]});
  if (!engine.ok()) return Fail(engine.status());
  const std::string text = ReadFile(arguments[2]);

  std::vector<swiftkv::TokenStream> streams;
  for (int i = 3; i < count; ++i) {
    auto prompt = (*engine)->EncodeChat(text + "\n\n" + arguments[i]);
    if (!prompt.ok()) return Fail(prompt.status());
    swiftkv::EngineRequest request;
    request.prompt = std::move(prompt).value();
    request.max_tokens = 128;
    auto stream = (*engine)->Submit(std::move(request));
    if (!stream.ok()) return Fail(stream.status());
    streams.push_back(std::move(stream).value());
  }

  // All are computed together from here on; reading them in turn only decides what is shown first.
  for (std::size_t i = 0; i < streams.size(); ++i) {
    std::printf("%s\n", arguments[3 + i]);
    swiftkv::TokenEvent event;
    while (streams[i].Next(&event, std::chrono::hours(1)) == swiftkv::StreamOutcome::kEvent) {
      std::fwrite(event.text.data(), 1, event.text.size(), stdout);
      std::fflush(stdout);
    }
    if (!streams[i].status().ok()) return Fail(streams[i].status());
    const swiftkv::RequestUsage usage = streams[i].usage();
    std::printf("\n[%lld of %lld prompt tokens from the cache, first token after %.0f ms]\n\n",
                static_cast<long long>(usage.cached_tokens),
                static_cast<long long>(usage.prompt_tokens), usage.first_token_seconds * 1000);
  }
  return 0;
}
