// SPDX-License-Identifier: Apache-2.0
// Compares two balances of a cache figure by figure.
#pragma once

#include <gtest/gtest.h>

#include "swiftkv/kv_cache.h"

namespace swiftkv {

inline void ExpectSameBalance(const KvBalance& a, const KvBalance& b) {
  EXPECT_EQ(a.live_private_bytes, b.live_private_bytes);
  EXPECT_EQ(a.live_shared_bytes, b.live_shared_bytes);
  EXPECT_EQ(a.cached_bytes, b.cached_bytes);
  EXPECT_EQ(a.free_bytes, b.free_bytes);
  EXPECT_EQ(a.metadata_bytes, b.metadata_bytes);
  EXPECT_EQ(a.mapped_bytes, b.mapped_bytes);
  EXPECT_EQ(a.peak_bytes, b.peak_bytes);
  EXPECT_EQ(a.live_tokens, b.live_tokens);
}

}  // namespace swiftkv
