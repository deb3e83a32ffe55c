// SPDX-License-Identifier: Apache-2.0
// Provides English prose for measuring quality: the Debian Policy Manual, read from its package at
// test time.
#pragma once

#include <cstddef>
#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

// Returns bytes [begin, end) of policy.txt. kNotFound, naming the package to install, where it is
// missing. Bytes 12,000 to 60,000 are the text that llama.cpp's own figures were measured on.
Result<std::string> PolicyProse(size_t begin = 12000, size_t end = 60000);

}  // namespace swiftkv
