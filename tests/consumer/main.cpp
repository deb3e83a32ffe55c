// SPDX-License-Identifier: Apache-2.0
// Stores two tokens in a paged cache, forks the sequence and checks that both share the bytes.
#include <cstdio>
#include <vector>

#include "swiftkv/kv_cache.h"

int main() {
  auto cache = swiftkv::KvCache::Create(
      {.layers = {{.kv_heads = 1, .head_dim = 64}}, .memory_bytes = 1 << 24});
  if (!cache.ok()) return std::puts(cache.status().message().c_str()), 1;
  auto& kv = **cache;
  const auto sequence = kv.CreateSequence();
  if (!sequence.ok() || !kv.Reserve(*sequence, 2).ok()) return std::puts("no room for 2 tokens"), 1;
  const std::vector<float> rows(2 * 64, 0.5F);  // [2 tokens, 1 head, 64]
  kv.StoreRows({.sequence = *sequence,
                .num_tokens = 2,
                .end_head = 1,
                .keys = rows.data(),
                .values = rows.data(),
                .token_stride = 64});
  kv.Commit(*sequence, 2);
  const auto fork = kv.Fork(*sequence);
  const auto balance = kv.Balance();
  std::printf("%s: %lld tokens, %llu shared bytes\n", kv.format_name().c_str(),
              static_cast<long long>(kv.Length(*sequence)),
              static_cast<unsigned long long>(balance.live_shared_bytes));
  return fork.ok() && kv.Length(*fork) == 2 && balance.live_shared_bytes > 0 ? 0 : 1;
}
