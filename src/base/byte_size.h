// SPDX-License-Identifier: Apache-2.0
// Reads and writes amounts of memory as people do: "512MiB", "4G", "1.5GiB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "swiftkv/status.h"

namespace swiftkv {

// Returns the bytes that `text` names: a decimal number, then no unit or B for bytes; K, M, G, T
// and KiB, MiB, GiB, TiB for powers of 1024; KB, MB, GB, TB for powers of 1000. Case and a space
// before the unit do not matter; a fraction is rounded down to whole bytes. Errors:
// InvalidArgument.
Result<std::uint64_t> ParseByteSize(std::string_view text);

// Returns about three digits and a binary unit: "0 B", "22.5 KiB", "512 MiB", "1.50 GiB".
std::string FormatByteSize(std::uint64_t bytes);

}  // namespace swiftkv
