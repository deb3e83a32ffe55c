// SPDX-License-Identifier: Apache-2.0
// Installs the process-wide callbacks of libllama and ggml and routes them to the calling thread's
// guard.
#include "model/llama_guard.h"

#include <cstdio>
#include <mutex>
#include <stdexcept>

#include "ggml.h"
#include "llama.h"

namespace swiftkv {
namespace {

thread_local LlamaGuard* innermost_guard = nullptr;

void OnLog(ggml_log_level level, const char* text, void* /*user_data*/) {
  if (innermost_guard != nullptr && text != nullptr) innermost_guard->Add(level, text);
}

void OnAbort(const char* message) {
  if (innermost_guard != nullptr) throw std::runtime_error(message);
  std::fprintf(stderr, "%s\n", message);
}

// Cuts "path/file.cpp:12: " and "function_name: " from the front, and white space from both ends.
std::string WithoutOrigin(std::string line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  for (;;) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) return line;
    const std::string head = line.substr(0, colon);
    const bool is_name = head.find_first_of(" '\"(") == std::string::npos &&
                         head.find_first_of("_.") != std::string::npos;
    if (!is_name) return line;
    line.erase(0, colon + 2);
  }
}

}  // namespace

LlamaGuard::LlamaGuard() : outer_(innermost_guard) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    llama_log_set(OnLog, nullptr);
    ggml_set_abort_callback(OnAbort);
  });
  innermost_guard = this;
}

LlamaGuard::~LlamaGuard() { innermost_guard = outer_; }

void LlamaGuard::Add(int level, const char* text) {
  if (level != GGML_LOG_LEVEL_CONT) {
    line_.clear();
    line_is_error_ = level == GGML_LOG_LEVEL_ERROR;
  }
  if (!line_is_error_) return;
  line_ += text;
  if (line_.empty() || line_.back() != '\n') return;
  if (errors_.size() < kMaxErrors) errors_.push_back(WithoutOrigin(line_));
  line_.clear();
}

std::string LlamaGuard::Reason(const std::string& otherwise) const {
  for (const std::string& error : errors_) {
    if (!error.empty()) return error;
  }
  const std::string unfinished = line_is_error_ ? WithoutOrigin(line_) : std::string();
  return unfinished.empty() ? otherwise : unfinished;
}

}  // namespace swiftkv
