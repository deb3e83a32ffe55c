// SPDX-License-Identifier: Apache-2.0
// Names blocks by what they hold: SHA-256 over the parent's key and the block's tokens.
//
// A block's key commits to everything that its K/V depends on: all tokens before it through the
// parent chain, and at the root the model, tenant, adapter and lineage. Each root field is hashed
// with its own tag and length, so that equal texts in two fields never give one key.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace swiftkv {

struct BlockKey {
  std::array<std::uint8_t, 32> bytes{};

  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

// Hashes a key for hash tables: its first eight bytes, already uniform.
struct BlockKeyHash {
  std::size_t operator()(const BlockKey& key) const;
};

// What separates families of sequences that must never share.
struct KeyRoot {
  std::string_view model_fingerprint = {};
  std::string_view tenant_salt = {};  // from the API key; a request's salt narrows it
  std::string_view request_salt = {};
  std::string_view adapter = {};
  // Key of the compressed prefix that the sequence stands on; zero for dense.
  BlockKey lineage = {};
};

// Returns the key that the first block's key is chained to.
BlockKey RootKey(const KeyRoot& root);

// Returns the key of a block of `tokens` (16 of them when full) after `parent`.
BlockKey ChildKey(const BlockKey& parent, std::span<const std::int32_t> tokens);

// Returns the key of the segment that a recipe makes of the blocks which end with `dense`.
BlockKey SegmentKey(const BlockKey& dense, std::string_view recipe);

// Returns 64 lower-case hex digits.
std::string ToHex(const BlockKey& key);

}  // namespace swiftkv
