// SPDX-License-Identifier: Apache-2.0
// Names status codes and stops the process on broken invariants.
#include "swiftkv/status.h"

#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace swiftkv {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kDataLoss:
      return "data_loss";
    case StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

namespace internal {

void DieOnBadResultAccess(const Status& status) {
  DieOnFailedCheck(__FILE__, __LINE__, "Result holds a value", status.message().c_str());
}

void DieOnFailedCheck(const char* file, int line, const char* text, const char* detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, text,
               detail[0] != '\0' ? ": " : "", detail);
  std::abort();
}

}  // namespace internal
}  // namespace swiftkv
