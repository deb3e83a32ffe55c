// SPDX-License-Identifier: Apache-2.0
// Turns the description of a tiny model into GGUF files.
//
// The files are honest: libllama loads them. Hostile ones are made by changing a field of
// MakeTinyGguf()'s value.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/raw_gguf.h"
#include "support/tiny_model.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Returns the keys and the F32 tensors of `model`.
RawGguf MakeTinyGguf(const TinyModel& model);

// Returns the same model as `parts` files that share the tensors out evenly, the first one with all
// metadata. Named "<prefix>-00001-of-0000N.gguf" by convention (see WriteTinySplit).
std::vector<RawGguf> MakeTinySplit(const TinyModel& model, int parts);

// Writes `bytes` to `path`; kInternal with the path where that fails.
Status WriteBytes(const std::filesystem::path& path, const std::string& bytes);

// Writes "<directory>/<model.name>.gguf" and returns its path.
Result<std::string> WriteTinyGguf(const TinyModel& model, const std::filesystem::path& directory);

// Writes the parts and returns their paths, the one to open first.
Result<std::vector<std::string>> WriteTinySplit(const TinyModel& model, int parts,
                                                const std::filesystem::path& directory);

}  // namespace swiftkv
