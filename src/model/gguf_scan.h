// SPDX-License-Identifier: Apache-2.0
// Checks the structure of a GGUF file, field by field, before any library parses it.
//
// A GGUF comes from strangers: counts, lengths, types, offsets and sizes are checked against the
// file and against limits that no honest model comes near, so that what parses the file afterwards
// (ggml's reader and libllama's vocabulary loader) meets nothing that makes it abort, throw or
// allocate much more than the metadata takes. Reads by pread through a small buffer; allocates one
// hash per key and one record per tensor. Format: docs/gguf.md of the ggml project, versions 2
// and 3, little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/mapped_file.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct GgufLimits {
  std::uint64_t max_keys = 65536;
  std::uint64_t max_tensors = 65536;
  std::uint64_t max_key_bytes = 1024;             // of one name
  std::uint64_t max_array_elements = 1ULL << 25;  // of one array of numbers
  std::uint64_t max_strings = 1ULL << 22;         // of one array of strings
  std::uint64_t max_metadata_bytes = 1ULL << 28;  // of everything before the tensors' data
};

// Errors, each naming the key or tensor: DataLoss for a file that is cut, contradicts itself or
// passes a limit; Unsupported for another version or byte order.
Status CheckGgufStructure(const MappedFile& file, const GgufLimits& limits = {});

// Returns `text` fit for a message: at most 64 bytes of it, with everything unprintable escaped.
std::string QuotedForMessage(const std::string& text);

}  // namespace swiftkv
