// SPDX-License-Identifier: Apache-2.0
// Makes token sequences for models whose ids have no text.
#pragma once

#include <cstdint>
#include <vector>

namespace swiftkv {

// Returns `count` tokens in [0, vocabulary), the same for the same seed on every machine. About a
// third of them repeat one of the last dozen, so that attention finds equal keys at different
// distances.
std::vector<int32_t> RandomTokens(int count, int vocabulary, uint64_t seed);

}  // namespace swiftkv
