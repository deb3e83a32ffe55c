// SPDX-License-Identifier: Apache-2.0
// Draws "label [#####.....]  50 % detail" over itself.
#include "tools/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace swiftkv {
namespace {

constexpr std::chrono::milliseconds kQuiet{400};     // nothing is drawn before
constexpr std::chrono::milliseconds kInterval{100};  // between two drawings
constexpr int kBarWidth = 30;
constexpr const char* kEraseLine = "\r\x1b[K";

}  // namespace

ProgressLine::ProgressLine(std::string label, bool enabled)
    : label_(std::move(label)),
      enabled_(enabled && ::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()) {}

void ProgressLine::Update(double done, const std::string& detail) {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (now - start_ < kQuiet || (drawn_ && now - last_drawn_ < kInterval)) return;
  const double part = std::clamp(done, 0.0, 1.0);
  const int filled = static_cast<int>(part * kBarWidth);
  fmt::print(stderr, "{}{} [{:#<{}}{:.<{}}] {:3.0f} % {}", kEraseLine, label_, "", filled, "",
             kBarWidth - filled, part * 100, detail);
  std::fflush(stderr);
  drawn_ = true;
  last_drawn_ = now;
}

void ProgressLine::Clear() {
  if (!drawn_) return;
  std::fputs(kEraseLine, stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace swiftkv
