// SPDX-License-Identifier: Apache-2.0
// Reads API keys from a file, so that they do not stand in the list of processes.
#pragma once

#include <string>
#include <vector>

#include "swiftkv/status.h"

namespace swiftkv {

// Appends the keys of the file to `keys`: one a line, without blanks around it. Empty lines and
// those that begin with # are no keys. Does nothing where `path` is empty. Errors: NotFound where
// the file cannot be read; InvalidArgument where it holds no key, as that would let everybody in,
// or is far too large for a list of keys.
Status AppendKeysOfFile(const std::string& path, std::vector<std::string>* keys);

}  // namespace swiftkv
