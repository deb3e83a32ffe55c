// SPDX-License-Identifier: Apache-2.0
// Cuts times to wait to what clocks can add to now without overflowing.
#pragma once

#include <algorithm>
#include <chrono>

namespace swiftkv {

// Returns `timeout`, a year at most.
inline std::chrono::milliseconds BoundedWait(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

}  // namespace swiftkv
