// SPDX-License-Identifier: Apache-2.0
// Reads the small text files in which the kernel tells figures (procfs, sysfs, control groups).
//
// Their contents are not trusted: a file is read up to a bound, and a number that is none, or too
// large, is as if it were not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "swiftkv/status.h"

namespace swiftkv {

// Returns the file's text, cut after `most_bytes`. Errors: NotFound where it, or the process that
// it tells of, does not exist; InvalidArgument where it may not be read; Internal for other
// trouble.
Result<std::string> ReadKernelText(const std::string& path, std::size_t most_bytes = 64U << 20);

// Takes the next line off `text`, without its line break. False where nothing is left.
bool TakeLine(std::string_view* text, std::string_view* line);
// Takes the next word off `line`, and the blanks around it; empty where none is left.
std::string_view TakeWord(std::string_view* line);

// Reads digits at the start of `text`; what follows them does not matter. Nothing where there are
// none, as for "max", or more than 64 bits hold.
std::optional<std::uint64_t> ToNumber(std::string_view text, int base = 10);

// Returns the number of a line "Name:   123 kB" in bytes; `name` with its colon.
std::optional<std::uint64_t> KilobytesOf(std::string_view line, std::string_view name);

// Returns that of the first such line of a text.
std::optional<std::uint64_t> FindKilobytes(std::string_view text, std::string_view name);

}  // namespace swiftkv
