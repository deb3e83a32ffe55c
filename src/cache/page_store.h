// SPDX-License-Identifier: Apache-2.0
// Defines the seam of tiers below the arena: where blocks go that memory has no room for.
//
// A store is a cache of a cache: it may forget anything at any time, and a failing store is a miss,
// never an error for the user. Payloads are one block's frames, exactly as docs/page_format.md
// states them. Thread: the owner of the cache; implementations that wait for a device bound every
// wait by their own timeout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/block_key.h"
#include "swiftkv/quality.h"
#include "swiftkv/status.h"

namespace swiftkv {

// What a reader must know before it may use a stored block.
struct StoredBlockInfo {
  std::string format;                 // format map's canonical text
  Quality quality = Quality::kExact;  // grade of the content
  std::vector<std::int32_t> tokens;   // [16]; compared on a hit
};

struct StoredBlock {
  StoredBlockInfo info;
  std::vector<std::byte> payload;
};

class PageStore {
 public:
  virtual ~PageStore() = default;

  virtual const char* name() const = 0;

  // Keeps a copy of the block. Replaces an entry of the same key. Errors: ResourceExhausted where
  // the payload alone passes the byte limit; anything else that went wrong on the device.
  virtual Status Put(const BlockKey& key, const StoredBlockInfo& info,
                     std::span<const std::byte> payload) = 0;

  // Returns the block. Errors: NotFound for a miss; DataLoss for an entry that failed its checksum
  // (and is gone then).
  virtual Result<StoredBlock> Get(const BlockKey& key) = 0;

  // Returns whether Get would likely succeed; never waits for a device.
  virtual bool Contains(const BlockKey& key) const = 0;

  // Forgets the block if it is there.
  virtual void Remove(const BlockKey& key) = 0;

  // Payload bytes held now; never above the limit given at creation.
  virtual std::uint64_t bytes_used() const = 0;
};

}  // namespace swiftkv
