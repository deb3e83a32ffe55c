// SPDX-License-Identifier: Apache-2.0
// Keeps libllama and ggml from printing or stopping the process while they read what a user gave.
// Layer: model.
//
// Owner: a scope on one thread; guards nest, the innermost collects. Log callback and abort
// callback of the libraries are process-wide: they are installed once, by the first guard, and look
// for a guard on the calling thread. Log lines outside any guard are dropped. An abort on a guarded
// thread becomes an exception that libllama's own loaders turn into an error; callers catch
// std::exception around every call. An abort on an unguarded thread stops the process, because
// there it is a broken invariant.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace swiftkv {

class LlamaGuard {
 public:
  LlamaGuard();
  ~LlamaGuard();
  LlamaGuard(const LlamaGuard&) = delete;
  LlamaGuard& operator=(const LlamaGuard&) = delete;

  // Returns the most telling error line so far without the names of the library's functions, or
  // `otherwise`. The first error is nearest to the cause; later ones only say that the caller
  // failed too.
  std::string Reason(const std::string& otherwise) const;

  // Takes one piece of log text at `level` of ggml_log_level; for the callback.
  void Add(int level, const char* text);

 private:
  static constexpr std::size_t kMaxErrors = 16;

  LlamaGuard* outer_;
  std::string line_;  // of the piece being logged
  bool line_is_error_ = false;
  std::vector<std::string> errors_;  // whole lines, the first kMaxErrors
};

}  // namespace swiftkv
