// SPDX-License-Identifier: Apache-2.0
// Draws a bar on standard error while something takes long, and takes it away when it is done.
//
// Shown on a terminal only, and not before a while has passed, so that quick work shows nothing.
#pragma once

#include <chrono>
#include <string>

namespace swiftkv {

class ProgressLine {
 public:
  // `enabled` is false where nothing shall be drawn, whatever standard error is.
  ProgressLine(std::string label, bool enabled);
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `done` in [0, 1]; `detail` follows the bar.
  void Update(double done, const std::string& detail);
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point last_drawn_;
};

}  // namespace swiftkv
