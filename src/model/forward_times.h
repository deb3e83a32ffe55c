// SPDX-License-Identifier: Apache-2.0
// Measures where the time of forward passes goes, as the first thread of the team sees it.
#pragma once

#include <chrono>

namespace swiftkv {

// Sums over forward passes. Waiting for other threads is in neither.
struct ForwardTimes {
  double attention_seconds = 0;
  double store_seconds = 0;  // encoding K and V into pages
};

// Adds the time from its making to its end to one of the sums. Null: does nothing, not even ask for
// the time.
class ForwardTimer {
 public:
  explicit ForwardTimer(double* seconds) : seconds_(seconds) {
    if (seconds_ != nullptr) start_ = std::chrono::steady_clock::now();
  }
  ~ForwardTimer() {
    if (seconds_ == nullptr) return;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    *seconds_ += passed.count();
  }
  ForwardTimer(const ForwardTimer&) = delete;
  ForwardTimer& operator=(const ForwardTimer&) = delete;

 private:
  double* seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace swiftkv
