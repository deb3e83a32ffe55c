// SPDX-License-Identifier: Apache-2.0
// Keeps measured choices of linear backends in small files beside the calibrations.
#pragma once

#include <string>

#include "model/language_model.h"

namespace swiftkv {

// Files named after the key in `folder`; empty keeps nothing. What cannot be read or written counts
// as not there: measuring again costs a moment.
LinearMemo LinearMemoIn(const std::string& folder);

// That of this user: the folder `linear` in the set-up's cache (see CacheDirectory).
LinearMemo ProcessLinearMemo();

}  // namespace swiftkv
