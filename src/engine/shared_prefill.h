// SPDX-License-Identifier: Apache-2.0
// Tells who had better wait for blocks that another choice is computing. Layer: engine.
//
// Pure. Requests that arrive together with equal prompts would each compute the same blocks; the
// one that goes first computes them and the others follow it: they wait until they find what they
// share, and compute the rest themselves. The wait costs little: whoever is followed goes first
// anyway, and following ends as soon as it stops computing, for whatever reason.
#pragma once

#include <cstdint>
#include <span>

namespace swiftkv {

// A choice with tokens to compute.
struct PrefillView {
  std::span<const std::int32_t> tokens;
  std::int64_t computed = 0;  // of `tokens`, in the cache; for one without a place, found there
};

// Returns the length up to which `mine` had better wait for `leader`, which goes first and is
// computing: whole blocks, at least one more than it has itself. 0: not at all.
std::int64_t FollowUntil(const PrefillView& mine, const PrefillView& leader);

}  // namespace swiftkv
