// SPDX-License-Identifier: Apache-2.0
// Identifies a model's weights, so that cached keys and values of one are never taken for
// another's.
#pragma once

#include <string>
#include <string_view>

#include "model/gguf_file.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Returns SHA-256 in hex over the metadata and tensor records of every shard and over the first,
// middle and last 4 KiB of every tensor. Errors: DataLoss where the file cannot be read.
Result<std::string> ModelFingerprint(const GgufFile& file);

// Returns SHA-256 in hex over the bytes of a text.
std::string TextFingerprint(std::string_view text);

}  // namespace swiftkv
