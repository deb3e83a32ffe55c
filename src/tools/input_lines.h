// SPDX-License-Identifier: Apache-2.0
// Reads standard input, whole or line by line, and notices when an interrupt ends the waiting.
#pragma once

#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

enum class LineOutcome { kLine, kEnd, kInterrupted, kFailed };

class InputLines {
 public:
  explicit InputLines(int descriptor) : descriptor_(descriptor) {}

  // Puts the next line without its end into `line`. A last line without a line break counts. After
  // an interrupt what was typed so far is dropped.
  LineOutcome Next(std::string* line);

  // The reason for kFailed.
  const std::string& error() const { return error_; }

 private:
  int descriptor_;
  std::string buffer_;
  bool at_end_ = false;
  std::string error_;
};

// Returns everything up to the end. Errors: Internal with the system's reason; Cancelled by an
// interrupt; ResourceExhausted beyond `most_bytes`.
Result<std::string> ReadAll(int descriptor, std::size_t most_bytes);

}  // namespace swiftkv
