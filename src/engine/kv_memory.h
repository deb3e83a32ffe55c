// SPDX-License-Identifier: Apache-2.0
// Computes what a sequence's tokens take in the cache, and how much memory the cache may have.
// Layer: engine.
//
// Pure arithmetic over shapes and formats; what is really mapped is KvCache::Balance().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/option_field.h"
#include "model/language_model.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"

namespace swiftkv {

class KvFootprint {
 public:
  // Errors: InvalidArgument for an unknown format, Unsupported for a head size that it lacks.
  static Result<KvFootprint> Make(std::span<const LayerShape> layers, std::string_view key_format,
                                  std::string_view value_format);

  // Whether tokens take less once they are older: a layer drops what left its window, or blocks are
  // re-encoded to fewer than 8 bits.
  bool ShrinksWithAge() const;
  // Bytes of one token in all layers, as it is stored once it is old.
  std::uint64_t TokenBytes() const;
  // Bytes of the slots that `tokens` tokens fill; window layers hold no more than their window, and
  // old blocks are re-encoded.
  std::uint64_t FilledBytes(std::int64_t tokens) const;
  // The least that the cache must map, in whole pages of 16 tokens, on the way to `tokens` tokens
  // that come one by one; never less for more tokens.
  std::uint64_t PageBytes(std::int64_t tokens) const;
  // The most that the cache must map at once for tokens [from, to) of a sequence that takes those
  // before `from`, whole blocks, from others: `rows` of them are stored before what is old is
  // re-encoded and what has left a window is dropped. Window frames that it took are given back
  // to those others, and make no room for its own.
  std::uint64_t PeakBytes(std::int64_t from, std::int64_t to, std::int64_t rows) const;
  // The least that tokens [from, to) of such a sequence hold, with all steps behind it.
  std::uint64_t OwnBytes(std::int64_t from, std::int64_t to) const;
  // Bytes of slots for `tokens` tokens that are reserved before any is stored: every layer as
  // written, windows or not.
  std::uint64_t ReservedBytes(std::int64_t tokens) const;
  // Bits of a stored K or V value, scales included, on average over `tokens` tokens, 1 or more.
  double BitsPerValue(std::int64_t tokens) const;
  // The most tokens whose pages fit into `bytes`.
  std::int64_t TokensWithin(std::uint64_t bytes) const;

 private:
  // Layers that are alike: a step's plan adds them up for everyone.
  struct Layers {
    std::uint64_t count = 0;
    std::uint64_t page_bytes = 0;         // of all kv heads of one, as written
    std::uint64_t sealed_page_bytes = 0;  // once old; page_bytes where nothing is re-encoded
    std::uint64_t token_values = 0;       // K and V values of one token
    int window = 0;                       // 0: none

    bool IsLike(const Layers& other) const;
  };

  static std::int64_t HeldTokens(const Layers& layer, std::int64_t tokens);

  std::vector<Layers> layers_;
};

// How the cache's bound comes about when nobody sets one (`--kv-memory auto`). What the process
// keeps beside the cache (repacked and packed weights, guides of keys, the vocabulary) is in memory
// before this is computed, and so missing from what is available.
struct AutomaticKvMemory {
  std::uint64_t available_bytes = 0;  // to the process: of the machine, or of its control group
  // Less mapped weights: the kernel counts them as available, and could drop them only at the price
  // of reading them again with every step.
  std::uint64_t weights_bytes = 0;
  std::uint64_t activation_bytes = 0;  // less activations that are not touched yet
  std::uint64_t headroom_bytes = 0;    // less 1/16 of the rest, at least 64 MiB
  std::uint64_t bytes = 0;             // what is left, 0 where nothing is
};
AutomaticKvMemory DivideMemory(std::uint64_t available_bytes, const ModelMemory& model);

// Returns DivideMemory().bytes.
std::uint64_t AutomaticKvBytes(std::uint64_t available_bytes, const ModelMemory& model);

// Returns the bound in bytes. Errors: Internal where the machine does not tell what it has,
// ResourceExhausted where it has nothing left.
Result<std::uint64_t> ResolveKvBytes(const MemoryLimit& budget, const ModelMemory& model);

// Returns the bytes of the guides by which formats with scales round the keys of these layers.
std::uint64_t KeyGuideBytes(std::span<const LayerShape> layers);

}  // namespace swiftkv
