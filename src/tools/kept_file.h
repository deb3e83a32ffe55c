// SPDX-License-Identifier: Apache-2.0
// Writes small files that several processes read and replace at once.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

// Writes `text` beside its place and renames it into `path`, whose folders are made, so that
// readers see an old file or the new one, whole. Errors: Internal with the system's reason and the
// path.
Status ReplaceFile(const std::string& path, const std::string& text);

// Returns the file's first `most` bytes; nothing where it cannot be read.
std::optional<std::string> ReadFileUpTo(const std::string& path, std::size_t most);

}  // namespace swiftkv
