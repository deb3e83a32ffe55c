// SPDX-License-Identifier: Apache-2.0
// Writes to standard output without buffering and remembers when nobody reads it any more.
#pragma once

#include <string_view>

#include "swiftkv/status.h"

namespace swiftkv {

class StandardOutput {
 public:
  // Writes all of `text`. Returns false when it cannot be written, now or earlier; status() says
  // why.
  bool Write(std::string_view text);

  // A reader that went away (EPIPE) is no error: it has what it wanted.
  bool reader_left() const { return reader_left_; }
  // Errors: Internal with the system's reason.
  const Status& status() const { return status_; }

 private:
  bool reader_left_ = false;
  Status status_;
};

// Gives descriptors 0, 1 and 2 a meaning where the caller closed them, so that no file opened later
// takes their number: reading and writing them then fails.
void OccupyStandardDescriptors();

}  // namespace swiftkv
