// SPDX-License-Identifier: Apache-2.0
// Stops the process when an invariant is broken. Never used for input that a user or a file could
// cause.
#pragma once

namespace swiftkv::internal {
// Writes "file:line: check failed: text (detail)" to stderr and aborts.
[[noreturn]] void DieOnFailedCheck(const char* file, int line, const char* text,
                                   const char* detail);
}  // namespace swiftkv::internal

// SKV_CHECK(condition) or SKV_CHECK(condition, "why it must hold").
#define SKV_CHECK(condition, ...)                                                            \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      ::swiftkv::internal::DieOnFailedCheck(__FILE__, __LINE__, #condition, "" __VA_ARGS__); \
    }                                                                                        \
  } while (false)
