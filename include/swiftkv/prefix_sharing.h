// SPDX-License-Identifier: Apache-2.0
// Describes what sequences may share through the prefix index, and what a look-up found. Layer:
// cache.
#pragma once

#include <cstdint>
#include <string>

#include "swiftkv/quality.h"

namespace swiftkv {

// Whose blocks a sequence may find, and who may find its own. Sequences share blocks only where all
// three texts agree; an empty text is one more value, never a wildcard.
struct PrefixScope {
  std::string tenant_salt;   // from the API key
  std::string request_salt;  // narrows it
  std::string adapter;
  bool share = true;   // false: neither looks for blocks nor makes its own findable
  bool counts = true;  // in PrefixCounters; false: its look-up repeats another sequence's
  Quality allowed = Quality::kExact;  // the worst grade that it reads
};

// Why a look-up found no more.
enum class PrefixEnd : std::uint8_t {
  kWholePrompt = 0,   // it found all but the last token, which is always computed
  kNeverSeen = 1,     // nothing known continues the prompt here
  kTokenDiffers = 2,  // what is known goes on with another token
  // The prompt's first block is known under other salts only. For the operator's eyes: to tell a
  // client would tell it what others have asked.
  kSalt = 3,
  kQuality = 4,    // the next block is known only in another format or a grade that is not allowed
  kEvicted = 5,    // the next block, or what a sliding window sees before it, was known once
  kNotShared = 6,  // the sequence shares nothing
};

constexpr const char* PrefixEndName(PrefixEnd end) {
  switch (end) {
    case PrefixEnd::kWholePrompt:
      return "whole_prompt";
    case PrefixEnd::kNeverSeen:
      return "never_seen";
    case PrefixEnd::kTokenDiffers:
      return "token_differs";
    case PrefixEnd::kSalt:
      return "salt";
    case PrefixEnd::kQuality:
      return "quality";
    case PrefixEnd::kEvicted:
      return "evicted";
    case PrefixEnd::kNotShared:
      return "not_shared";
  }
  return "unknown";
}

struct PrefixHit {
  std::int64_t tokens = 0;  // from position 0 on
  PrefixEnd end = PrefixEnd::kNeverSeen;
  // kTokenDiffers: position of the first token unlike the closest continuation that is known (the
  // newest few hundred are looked at); -1 otherwise.
  std::int64_t differs_at = -1;
  Quality grade = Quality::kExact;  // the worst of what was found
};

// What dropping prefixes did.
struct DroppedPrefixes {
  std::uint64_t blocks = 0;       // no longer findable
  std::uint64_t freed_bytes = 0;  // of blocks that no sequence held
};

// What is pinned now.
struct PinnedPrefixes {
  std::uint64_t prefixes = 0;
  std::uint64_t blocks = 0;  // of all of them, shared ones once
};

// Counts since the cache was made.
struct PrefixCounters {
  // Of sequences that count, once they have committed something: prompts that were looked up, once
  // each, and what was taken instead of computed, copied tokens included.
  std::uint64_t queried_tokens = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t published_blocks = 0;    // made findable
  std::uint64_t evicted_blocks = 0;      // no longer findable because memory was wanted
  std::uint64_t copied_tail_tokens = 0;  // taken out of blocks that agree in part
};

}  // namespace swiftkv
