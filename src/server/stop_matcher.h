// SPDX-License-Identifier: Apache-2.0
// Cuts a reply off before its first stop string, and holds back what may still become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swiftkv {

// What was released, joined in order, is the reply's text before the stop string that was complete
// first; of those complete at the same character, the longest. It does not depend on the pieces in
// which the text came. Pieces and stop strings are well-formed UTF-8, so are released texts.
class StopMatcher {
 public:
  // No stop string is empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Takes the next piece and returns what can be shown by now; nothing once stopped.
  std::string Feed(std::string_view piece);
  // The reply ended otherwise: returns what was held back.
  std::string Finish();
  bool stopped() const { return stopped_; }

 private:
  // Bytes at the end of held_ that begin a stop string.
  std::size_t OpenBytes() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace swiftkv
