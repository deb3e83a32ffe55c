// SPDX-License-Identifier: Apache-2.0
// Names refusals and sorts HTTP statuses into them.
#include "server/server_statistics.h"

#include <iterator>

namespace swiftkv {

const char* RefusalName(Refusal refusal) {
  static constexpr const char* kNames[] = {"invalid",   "unauthorized", "not_found", "timeout",
                                           "too_large", "queue_full",   "stopping",  "other"};
  static_assert(std::size(kNames) == kRefusals);
  return kNames[static_cast<std::size_t>(refusal)];
}

Refusal RefusalOf(int http_status) {
  switch (http_status) {
    case 400:
      return Refusal::kInvalid;
    case 401:
      return Refusal::kUnauthorized;
    case 404:
    case 405:
      return Refusal::kNotFound;
    case 408:
      return Refusal::kTimeout;
    case 413:
    case 431:
      return Refusal::kTooLarge;
    case 429:
      return Refusal::kQueueFull;
    case 503:
      return Refusal::kStopping;
    default:
      return Refusal::kOther;
  }
}

ServerStatistics ServerCounters::Read() const {
  ServerStatistics now;
  now.open_connections = open_connections_;
  now.accepted_connections = accepted_connections_;
  now.refused_connections = refused_connections_;
  for (std::size_t i = 0; i < kRefusals; ++i) now.refused_requests[i] = refused_requests_[i];
  return now;
}

}  // namespace swiftkv
