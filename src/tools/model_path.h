// SPDX-License-Identifier: Apache-2.0
// Finds files and folders by the environment: the model to load when no path was given, the
// set-up's cache, the place of temporary files.
#pragma once

#include <functional>
#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

// Returns a variable's value, or null.
using Environment = std::function<const char*(const char* name)>;

// Returns where the set-up keeps what it fetched: $SWIFTKV_CACHE_DIR, else $XDG_CACHE_HOME/swiftkv,
// else ~/.cache/swiftkv. Empty where none of them is set.
std::string CacheDirectory(const Environment& environment);

// Returns where temporary files go: $TMPDIR, else /tmp.
std::string TemporaryFolder(const Environment& environment);

// Returns `given`, else $SWIFTKV_MODEL, else the model that the set-up fetched. Errors: NotFound
// when that one is not there.
Result<std::string> ResolveModelPath(const std::string& given, const Environment& environment);

// The process's own environment.
Environment ProcessEnvironment();

}  // namespace swiftkv
