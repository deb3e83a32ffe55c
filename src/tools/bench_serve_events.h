// SPDX-License-Identifier: Apache-2.0
// Reads server-sent events from the pieces in which they arrive.
//
// The event stream format of the HTML standard (section 9.2.6), of which only `data` matters here:
// lines end with CR, LF or both; lines that begin with a colon are comments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swiftkv {

class EventStreamReader {
 public:
  // Takes the next bytes of a stream, however it was cut, and returns the data of the events that
  // they complete. An event that its blank line does not follow is none.
  std::vector<std::string> Take(std::string_view bytes);

  // True once a line or an event was longer than 16 MiB: nothing is read any more.
  bool overflowed() const { return overflowed_; }

 private:
  void EndLine(std::vector<std::string>* events);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // the last byte was a CR, whose LF may follow
  bool first_line_ = true;     // a byte order mark may precede it
  bool overflowed_ = false;
};

}  // namespace swiftkv
