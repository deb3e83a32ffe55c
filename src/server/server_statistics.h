// SPDX-License-Identifier: Apache-2.0
// Counts what the server sees of connections and refused requests.
//
// Counted and read on any thread. Counts never fall.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace swiftkv {

// Why a request was answered with an error and no work.
enum class Refusal : std::uint8_t {
  kInvalid,       // 400: it can never work
  kUnauthorized,  // 401
  kNotFound,      // 404 and 405
  kTimeout,       // 408: it did not arrive in time
  kTooLarge,      // 413 and 431
  kQueueFull,     // 429
  kStopping,      // 503
  kOther,
};
inline constexpr std::size_t kRefusals = static_cast<std::size_t>(Refusal::kOther) + 1;

// Returns e.g. "queue_full".
const char* RefusalName(Refusal refusal);

// Returns what the status of an error reply stands for.
Refusal RefusalOf(int http_status);

struct ServerStatistics {
  int open_connections = 0;
  std::uint64_t accepted_connections = 0;
  std::uint64_t refused_connections = 0;  // closed at once: as many as allowed were open
  std::array<std::uint64_t, kRefusals> refused_requests = {};  // [Refusal]
};

class ServerCounters {
 public:
  void OpenedConnection() {
    ++open_connections_;
    ++accepted_connections_;
  }
  void ClosedConnection() { --open_connections_; }
  void RefusedConnection() { ++refused_connections_; }
  // By an error reply of this status.
  void RefusedRequest(int http_status) {
    ++refused_requests_[static_cast<std::size_t>(RefusalOf(http_status))];
  }

  ServerStatistics Read() const;

 private:
  std::atomic<int> open_connections_ = 0;
  std::atomic<std::uint64_t> accepted_connections_ = 0;
  std::atomic<std::uint64_t> refused_connections_ = 0;
  std::array<std::atomic<std::uint64_t>, kRefusals> refused_requests_ = {};
};

}  // namespace swiftkv
