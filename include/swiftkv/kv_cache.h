// SPDX-License-Identifier: Apache-2.0
// Declares the paged KV cache: sequences of 16-token blocks within a hard bound of memory. Layer:
// cache.
//
// Owner: one thread at a time (the engine's). While a step runs, other threads may read and write
// the pages through views and StoreRows, each (sequence, layer, head, token) by one thread; nothing
// else may be called meanwhile.
//
// A sequence's life: CreateSequence or Fork, AdoptPrefix for what others have computed, then for
// every step Reserve -> StoreRows for each layer -> attention over its runs -> Commit; Release at
// the end. Positions are logical: the next token's position is Length(), whatever was dropped.
// docs/page_format.md states the bytes; ARCHITECTURE.md the invariants.
//
// Whatever needs memory that the bound does not have takes it from cached blocks, those that the
// prefix index keeps and no sequence uses: the cheapest to compute again per byte and the longest
// unused first, a block before those that it continues, never one that is pinned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "swiftkv/compaction.h"
#include "swiftkv/kv_format.h"
#include "swiftkv/page_view.h"
#include "swiftkv/prefix_sharing.h"
#include "swiftkv/quality.h"
#include "swiftkv/rounding_guide.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Attention shape of one decoder layer, as far as its cache goes.
struct LayerShape {
  int kv_heads = 0;
  int head_dim = 0;  // values of a K or V row of one head
  int window = 0;    // tokens that a query sees, itself included; 0 sees all

  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

struct KvCacheOptions {
  std::vector<LayerShape> layers;
  std::string key_format = "f16";  // of sequences that do not say otherwise
  std::string value_format = "f16";
  std::uint64_t memory_bytes = 0;   // hard bound on OS pages in use for pages and metadata
  bool poison_free_frames = false;  // tests: fill fresh and freed frames with NaN patterns
  // Hold pages in 2 MiB ones where the system has them: only stretches that frames fill, so that no
  // byte more is in use.
  bool huge_pages = true;
  // Guide the rounding of keys in formats with scales; of every layer and kv head. Null: each
  // value goes to its nearest code.
  std::shared_ptr<const KeyGuides> key_guides;
  // Names the model, weights included: part of every block's key.
  std::string model_fingerprint;
  // Keeps free, within the bound, what Compact needs to begin with, so that it also works where
  // sequences have filled the rest: two blocks, 16 OS pages and a 64th of the bound.
  bool keeps_headroom = false;
};

// Where every mapped byte is. The first five add up to mapped_bytes, always. Frames and the
// allocator's arrays are counted as the OS pages that the kernel sees; sequences, page tables and
// the layouts of the formats in use, which lie on the heap, as their capacity rounded up to OS
// pages in total. The model's layer shapes, 12 bytes a layer, are not counted.
struct KvBalance {
  std::uint64_t live_private_bytes = 0;  // frames with one owner, findable or not
  std::uint64_t live_shared_bytes = 0;   // frames with two or more owners, counted once; a frame
                                         // that waits for further owners to seal has one more
  std::uint64_t cached_bytes = 0;        // findable frames without an owner, pinned ones included
  std::uint64_t free_bytes =
      0;  // mapped, in no frame: the rest of OS pages that a live frame touches
  std::uint64_t metadata_bytes = 0;       // page tables, reference counts, allocator state
  std::uint64_t metadata_heap_bytes = 0;  // of these, what lies on the heap
  std::uint64_t mapped_bytes = 0;         // OS pages in use; never above limit_bytes
  std::uint64_t peak_bytes = 0;           // the highest mapped_bytes so far
  std::uint64_t limit_bytes = 0;
  std::uint64_t live_tokens = 0;     // sum of sequence lengths
  std::uint64_t returned_bytes = 0;  // frames' OS pages given back to the system so far
};

enum class SequenceId : std::uint32_t {};

// One sequence's rows of one layer to store.
struct KvRows {
  SequenceId sequence{};
  int layer = 0;
  std::int64_t first_position = 0;  // within [Length(), Length() + reserved)
  int num_tokens = 0;
  int first_head = 0;  // kv heads [first_head, end_head)
  int end_head = 0;
  const float* keys =
      nullptr;  // [num_tokens, token_stride]: head h's row starts at h * head_dim; K is post-RoPE
  const float* values = nullptr;  // likewise
  std::size_t token_stride = 0;   // floats between two tokens
};

class KvCache {
 public:
  // Errors: InvalidArgument for a bad shape, an unknown format, or a bound below one block.
  static Result<std::unique_ptr<KvCache>> Create(const KvCacheOptions& options);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  // Makes an empty sequence in the cache's own format, or in another. Sequences of all formats
  // share the one bound, and frames of equal size one size class; what a format needs is set up
  // when it is first asked for. Errors: ResourceExhausted; InvalidArgument for an unknown format or
  // one that does not serve a layer's head size.
  Result<SequenceId> CreateSequence();
  Result<SequenceId> CreateSequence(const KvFormat& format);
  // Makes one that finds blocks of its scope and whose own are found; the others do neither.
  Result<SequenceId> CreateSequence(const KvFormat& format, const PrefixScope& scope);

  // Makes a sequence that shares every block of `parent` physically, a partial last one included,
  // until one of the two writes to it (copy on write), and its format. A reservation of the parent
  // ends. Errors: ResourceExhausted.
  Result<SequenceId> Fork(SequenceId parent);

  // Gives the sequence's references back. Findable blocks stay as cached ones; of the rest, OS
  // pages that no live frame touches return to the OS.
  void Release(SequenceId sequence);

  // Returns what a sequence of this format and scope would find of a prompt, all but its last
  // token at most. Changes nothing, ages included. O(tokens).
  PrefixHit FindPrefix(const KvFormat& format, const PrefixScope& scope,
                       std::span<const std::int32_t> tokens) const;

  // Has the sequence take, beyond Length(), what is findable of `tokens`, the whole prompt, of
  // which it holds the first Length(): whole blocks are shared, and of a block that agrees in part
  // a copy is made while there is room. It may be called again during a prefill, when others have
  // computed more; a partial last block of its own gives way to a whole one. Returns how far the
  // sequence reaches now, which is less than tokens.size(), and why no further. A sequence without
  // a scope, or with tokens that Commit was not told, takes nothing (kNotShared). Ends a
  // reservation where it takes something. Errors: ResourceExhausted for page tables; nothing has
  // changed then.
  Result<PrefixHit> AdoptPrefix(SequenceId sequence, std::span<const std::int32_t> tokens);

  // Makes positions [Length(), Length() + num_tokens) writable, all or nothing. Evicts cached
  // blocks where the bound asks for it. Errors: ResourceExhausted with the bytes needed and left;
  // the sequence is unchanged then.
  Status Reserve(SequenceId sequence, int num_tokens);

  // Encodes rows into reserved slots. Safe from many threads on disjoint (layer, head, token) sets.
  void StoreRows(const KvRows& rows) const;

  // Counts the first `num_tokens` reserved tokens as part of the sequence, frees the frames of
  // sliding-window layers that no later token can see, and re-encodes blocks that have left the
  // newest 128 tokens where the format has fewer than 8 bits (what the bound has no room for waits
  // for a later Commit). Reserved slots that were not committed stay reserved.
  void Commit(SequenceId sequence, int num_tokens);

  // The same for tokens with their names: whole blocks of a sequence that shares are findable from
  // here on, and not before; in formats of fewer than 8 bits once they were re-encoded. A block
  // that another sequence made findable meanwhile takes the place of the sequence's own. Frames
  // that leave a window become cached. Names end where tokens were committed without, until
  // Truncate.
  void Commit(SequenceId sequence, std::span<const std::int32_t> tokens);

  // Says that later tokens of the sequence are computed from something of this grade, so that only
  // readers which allow it find them.
  void WorsenGrade(SequenceId sequence, Quality grade);

  // Keeps the whole blocks of `tokens` from eviction until a time, findable ones of this format and
  // scope. A longer pin of the same blocks stays. Errors: NotFound where not all are findable,
  // ResourceExhausted; nothing is pinned then.
  Status PinPrefix(const KvFormat& format, const PrefixScope& scope,
                   std::span<const std::int32_t> tokens, std::int64_t until_ms);

  // Ends the pin of exactly the whole blocks of `tokens`; what other pins keep of them stays
  // pinned. Errors: NotFound where they are not pinned.
  Status UnpinPrefix(const KvFormat& format, const PrefixScope& scope,
                     std::span<const std::int32_t> tokens);

  PinnedPrefixes pinned_prefixes() const;

  // Tells the time: milliseconds of a monotonic clock, 0 at the start. The cache reads none.
  void SetTime(std::int64_t milliseconds);

  // Returns the frame bytes that a reservation could win by evicting.
  std::uint64_t ReclaimableBytes() const;

  // Forgets everything findable, pinned or not; or only what sequences of this scope find, in every
  // format. Live sequences that it concerns keep their frames, and make nothing findable until they
  // are empty again.
  DroppedPrefixes DropPrefixes();
  DroppedPrefixes DropPrefixes(const PrefixScope& scope);

  PrefixCounters prefix_counters() const;

  // Replaces what layers without a window hold below order.end by a segment of the tokens that each
  // head keeps (swiftkv/compaction.h). What is kept in the format that it is in stays bit for bit;
  // the rest is re-encoded. In formats of fewer than 8 bits block 0, the newest 128 tokens and the
  // first and last two layers are kept in int8 instead. Length(), all positions and a reservation
  // stay. Later tokens get the grade kAny, and are findable only by sequences that stand
  // on the same segment; those of a segment that cannot be shared by nobody.
  //
  // Dense blocks that nobody else has or may find are freed one by one as they are copied; else the
  // segment is made beside them, and they go when nobody holds them. Errors: InvalidArgument for an
  // order that does not fit the sequence; ResourceExhausted where even eviction finds no room.
  // Nothing has changed then. O(tokens x heads).
  Result<CompactionResult> Compact(SequenceId sequence, const CompactionOrder& order);

  // The same in pieces, so that others need not wait for all of it. Begin takes the pages that will
  // be kept, beside the blocks of the sequence; Continue copies of the next blocks of 16 tokens and
  // returns whether that was all; Finish, with the same order, has the sequence stand on what was
  // copied and lets go of its blocks. Between the pieces the cache may be used as always, but no
  // token of this sequence below order.end may go: where Truncate takes one, and by Compact and
  // Release, the work is given up.
  //
  // Begin returns false where Compact must do it at once: without room for both and a block more
  // for each sequence, evicting included; for a model with sliding windows whose segment others may
  // find; and where that segment is there already. Errors: InvalidArgument as for Compact. Nothing
  // has changed then.
  Result<bool> BeginCompaction(SequenceId sequence, const CompactionOrder& order);
  bool ContinueCompaction(SequenceId sequence, int num_blocks);
  CompactionResult FinishCompaction(SequenceId sequence, const CompactionOrder& order);

  // Returns what is known of each segment, in no order.
  std::vector<SegmentDescription> DescribeSegments() const;

  // Returns where the longest segment ends that a sequence of this format and scope could take for
  // a prompt: one made of the prompt's beginning under this recipe, shorter than the prompt, where
  // the scope allows kAny; 0 for none. Changes nothing. O(tokens).
  std::int64_t FindSegment(const KvFormat& format, const PrefixScope& scope,
                           std::span<const std::int32_t> tokens, std::string_view recipe) const;

  // Has an empty sequence stand on what FindSegment would find of `tokens`, the whole prompt, and
  // returns how far it reaches now; 0 where there is nothing. AdoptPrefix may then find more, which
  // others have computed on top of the segment. Errors: ResourceExhausted; nothing has changed
  // then.
  Result<std::int64_t> AdoptSegment(SequenceId sequence, std::span<const std::int32_t> tokens,
                                    std::string_view recipe);

  // Keeps the segment that ends with the last whole block of `tokens` from eviction until a time;
  // a longer pin stays. Errors: NotFound.
  Status PinSegment(const KvFormat& format, const PrefixScope& scope,
                    std::span<const std::int32_t> tokens, std::string_view recipe,
                    std::int64_t until_ms);

  // Returns the end of the segment that the sequence stands on; 0 for none.
  std::int64_t SegmentEnd(SequenceId sequence) const;

  // Appends the positions below SegmentEnd() that a head of a layer without a window still holds,
  // ascending; nothing where it stands on none.
  void AppendKeptPositions(SequenceId sequence, int layer, int head,
                           std::vector<std::int32_t>* positions) const;

  // Returns the tokens that a head of a layer without a window holds on average, rounded up:
  // Length() where nothing was dropped.
  std::int64_t KeptTokens(SequenceId sequence) const;

  // Returns the bytes of all pages that the sequence holds, those that it shares in full.
  std::uint64_t HeldBytes(SequenceId sequence) const;

  // Returns the bytes of one page of 16 kept tokens of a head of `layer` in this format, their
  // positions included, for tokens neither in block 0 nor among the newest. Errors: those of
  // CreateSequence.
  Result<std::uint64_t> KeptPageBytes(const KvFormat& format, int layer) const;

  SegmentTotals segment_totals() const;

  // Forgets the tokens from `length` on, and a reservation. Errors: Unsupported where a
  // sliding-window layer no longer holds what a query at `length` sees, or where `length` lies
  // below SegmentEnd() and is not 0; InvalidArgument where `length` is not in [0, Length()]; the
  // sequence is unchanged then. Tokens that were re-encoded to fewer than 8 bits stay so, the
  // newest ones included.
  Status Truncate(SequenceId sequence, std::int64_t length);

  std::int64_t Length(SequenceId sequence) const;

  // Appends what a query at the end of `Length() + extra_tokens` may see of `layer`, oldest first:
  // a window layer's runs start at the oldest block kept. One run, or, once blocks were re-encoded
  // to fewer than 8 bits, up to three: block 0, the re-encoded blocks, the newest tokens. All
  // layers of one shape and window have runs of the same extents. Before them, for a sequence on a
  // segment, come the segment's runs where the layer has no window: by head, one for each page
  // format that the head keeps tokens in, with `positions` set; their extents differ from layer to
  // layer and from head to head, and two runs of a head may interleave in position.
  void AppendRuns(SequenceId sequence, int layer, int extra_tokens,
                  std::vector<PageRun>* runs) const;

  int num_layers() const;
  const LayerShape& layer(int index) const;

  // Returns the worst grade of what a sequence's format, or the cache's own, stores: models of up
  // to four layers store int8 where fewer bits were asked for.
  Quality format_quality() const;
  Quality format_quality(SequenceId sequence) const;
  // Returns the format's name, e.g. "f16" or "int8/int4".
  std::string format_name() const;
  std::string format_name(SequenceId sequence) const;
  // Returns the bytes that a token takes in all full-attention layers and, while within the window,
  // in the window layers; what it comes to take where it is re-encoded when older.
  std::uint64_t bytes_per_token() const;
  std::uint64_t bytes_per_token(SequenceId sequence) const;
  // Returns the bytes that a contiguous reservation of `max_tokens` would take in the cache's own
  // format: every layer, every token.
  std::uint64_t contiguous_bytes(std::int64_t max_tokens) const;
  // Returns the bits that a stored K or V value of the sequence takes now, scales included, on
  // average over all tokens and layers that it holds; 0 where it holds none.
  double bits_per_value(SequenceId sequence) const;

  KvBalance Balance() const;

  // Stops the process unless all references, frames and bytes add up. O(blocks).
  void CheckInvariants() const;

 private:
  struct State;
  void AppendSegmentRuns(SequenceId sequence, int layer, std::vector<PageRun>* runs) const;
  explicit KvCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace swiftkv
