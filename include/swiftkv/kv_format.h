// SPDX-License-Identifier: Apache-2.0
// Names the formats that a sequence's pages are stored in. Layer: cache.
#pragma once

#include <string>

namespace swiftkv {

// The formats that a sequence's K and V planes are stored in: names of the format table. Where one
// has fewer than 8 bits, block 0, the newest 128 tokens and the first and last two layers are
// stored in int8 instead.
struct KvFormat {
  std::string key = "f16";
  std::string value = "f16";

  friend bool operator==(const KvFormat&, const KvFormat&) = default;
};

}  // namespace swiftkv
