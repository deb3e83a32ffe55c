// SPDX-License-Identifier: Apache-2.0
// Checks that block keys commit to everything that must separate two blocks.
#include "cache/block_key.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <unordered_set>
#include <vector>

namespace swiftkv {
namespace {

std::vector<std::int32_t> Block(std::int32_t first) {
  std::vector<std::int32_t> tokens(16);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(BlockKeyTest, KeysAreThoseOfTheDocumentedBytes) {
  // Printed by Python's hashlib from the bytes that block_key.cpp states.
  const BlockKey root = RootKey({.model_fingerprint = "m", .tenant_salt = "t"});
  EXPECT_EQ(ToHex(root), "277d2b654883ad5d067c367256467d23aa211ae9ab58a371d2fe1f7a64481d0e");
  EXPECT_EQ(ToHex(ChildKey(root, Block(0))),
            "f433fc26a442f1c0ac14f8ef8120a53aaf4490d4b3181955ce90d7c5df02ff3a");
}

TEST(BlockKeyTest, EqualTextsInTwoFieldsNeverGiveOneKey) {
  const BlockKey adapter = RootKey({.model_fingerprint = "m", .adapter = "k1"});
  const BlockKey salt = RootKey({.model_fingerprint = "m", .tenant_salt = "k1"});
  const BlockKey request = RootKey({.model_fingerprint = "m", .request_salt = "k1"});
  const BlockKey plain = RootKey({.model_fingerprint = "m"});
  const BlockKey model = RootKey({.model_fingerprint = "k1"});
  EXPECT_EQ(
      (std::unordered_set<BlockKey, BlockKeyHash>{adapter, salt, request, plain, model}).size(),
      5U);
}

TEST(BlockKeyTest, WhereOneFieldEndsAndTheNextBeginsMatters) {
  EXPECT_NE(RootKey({.tenant_salt = "a", .request_salt = "b"}),
            RootKey({.tenant_salt = "ab", .request_salt = ""}));
  EXPECT_NE(RootKey({.tenant_salt = "a|b"}), RootKey({.tenant_salt = "ab"}));
  EXPECT_NE(RootKey({.tenant_salt = {"\0", 1}}), RootKey({}));
}

TEST(BlockKeyTest, ALineageSeparatesCompressedPrefixesFromDenseOnes) {
  const BlockKey dense = RootKey({.model_fingerprint = "m"});
  EXPECT_NE(RootKey({.model_fingerprint = "m", .lineage = ChildKey(dense, Block(0))}), dense);
}

TEST(BlockKeyTest, OrderCountParentAndEveryTokenChangeTheKey) {
  const BlockKey root = RootKey({.model_fingerprint = "m"});
  const std::vector<std::int32_t> x = Block(0);
  const std::vector<std::int32_t> y = Block(100);
  const BlockKey xy = ChildKey(ChildKey(root, x), y);
  EXPECT_EQ(xy, ChildKey(ChildKey(root, x), y));
  EXPECT_NE(xy, ChildKey(ChildKey(root, y), x));
  EXPECT_NE(ChildKey(root, x), ChildKey(ChildKey(root, x), x));
  EXPECT_NE(ChildKey(root, x), ChildKey(root, std::span(x).first(15)));
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<std::int32_t> changed = x;
    changed[i] ^= 1 << (i * 2);
    EXPECT_NE(ChildKey(root, changed), ChildKey(root, x)) << i;
    if (i == 0) continue;
    changed = x;
    std::swap(changed[i - 1], changed[i]);
    EXPECT_NE(ChildKey(root, changed), ChildKey(root, x)) << i;
  }
}

TEST(BlockKeyTest, ManyBlocksOverTwoTokensGiveManyKeysAndHashes) {
  constexpr int kBlocks = 1 << 16;
  const BlockKey root = RootKey({});
  std::unordered_set<BlockKey, BlockKeyHash> keys;
  std::unordered_set<std::size_t> hashes;
  for (int bits = 0; bits < kBlocks; ++bits) {
    std::vector<std::int32_t> tokens(16);
    for (int i = 0; i < 16; ++i) tokens[static_cast<std::size_t>(i)] = (bits >> i) & 1;
    const BlockKey key = ChildKey(root, tokens);
    keys.insert(key);
    hashes.insert(BlockKeyHash{}(key));
  }
  EXPECT_EQ(keys.size(), static_cast<std::size_t>(kBlocks));
  EXPECT_EQ(hashes.size(), static_cast<std::size_t>(kBlocks));
}

}  // namespace
}  // namespace swiftkv
