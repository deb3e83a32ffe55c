// SPDX-License-Identifier: Apache-2.0
// Finds the token by which a model ends its turn in a chat, from its template. Layer: model.
//
// Files name the end of text, and often a token that only base models use; how a chat model ends a
// turn is what its template puts behind a reply. Without that token a reply runs on and plays both
// sides.
#pragma once

#include "model/vocabulary.h"

namespace swiftkv {

// Returns the control or marker token that the template puts behind a reply, white space aside;
// kNoToken where there is no template, it does not render, or something else follows.
TokenId FindTurnEnd(const Vocabulary& vocabulary);

}  // namespace swiftkv
