// SPDX-License-Identifier: Apache-2.0
// Writes with write(2); a reply's text must leave the process token by token.
#include "tools/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace swiftkv {

bool StandardOutput::Write(std::string_view text) {
  while (!text.empty() && !reader_left_ && status_.ok()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      reader_left_ = true;
    } else if (errno != EINTR) {
      status_ = Status::Internal(std::string("standard output cannot be written: ") +
                                 std::strerror(errno));
    }
  }
  return !reader_left_ && status_.ok();
}

void OccupyStandardDescriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is taken, which is this one. The mode is the one that cannot be used.
    const int opened = ::open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
    if (opened != descriptor && opened >= 0) ::close(opened);
  }
}

}  // namespace swiftkv
