// SPDX-License-Identifier: Apache-2.0
// Fills memory with pages of many sequences in shuffled frames and describes them as batches of
// attention.
//
// Frames are as the cache lays them out: the pages of all layers of 16 tokens. A handful of encoded
// pages is copied into all frames: kernels do not mind equal bytes, and every page has an address
// of its own. A turn is a step of the model: its sequences are computed together, layer by layer;
// several turns bring enough distinct pages, so that none is still in a processor's cache when it
// is read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "swiftkv/attention.h"
#include "swiftkv/page_layout.h"
#include "tools/bench_arena.h"

namespace swiftkv {

struct BenchPagesSpec {
  AttentionShape shape;
  PageFormat format;
  int layers = 1;         // whose pages lie in a frame
  int turns = 1;          // each with sequences of its own
  int batch = 1;          // sequences of a turn
  int context = 0;        // tokens of each
  int shared_tokens = 0;  // the first ones, whose pages a turn's sequences share; of whole pages
  double removed = 0;     // share of the tokens that heads dropped; nothing is shared then
  int queries = 1;        // of each sequence, its last positions
  bool shuffled = true;   // frames in random order, else in that of sequences and tokens
};

// Arithmetic of a spec: what a pass over all turns and layers reads and computes.
struct BenchWork {
  std::size_t page_bytes = 0;
  std::uint64_t frames = 0;  // of all turns; of segments each page is one
  std::uint64_t pages = 0;   // distinct pages, of all turns, layers and kv heads
  std::uint64_t visits = 0;  // pages, counted for each sequence that sees them
  std::uint64_t distinct_bytes = 0;
  double flops = 0;  // 4 for each (query, visible slot, head, channel): scores, then sums
  int calls = 0;     // of the backend: one for each turn and layer
};

BenchWork WorkOf(const BenchPagesSpec& spec);

class BenchPages {
 public:
  // Lays the pages out in `arena`, which outlives them and holds nothing else. Errors: those of the
  // arena.
  static Result<std::unique_ptr<BenchPages>> Make(const BenchPagesSpec& spec, BenchArena* arena);
  BenchPages(const BenchPages&) = delete;
  BenchPages& operator=(const BenchPages&) = delete;

  const BenchPagesSpec& spec() const { return spec_; }
  const BenchWork& work() const { return work_; }

  // The batch of one call of the backend; all of a layer have the same extents, and all of all
  // layers where nothing was removed.
  AttentionBatch batch(int turn, int layer);

 private:
  explicit BenchPages(const BenchPagesSpec& spec);

  void Fill(BenchArena* arena);
  void BuildRuns(const BenchArena& arena);
  void BuildSegmentRuns(const BenchArena& arena);
  void BuildSequences();

  BenchPagesSpec spec_;
  BenchWork work_;
  PageLayout layout_;
  std::vector<std::uint32_t> frames_;         // [turns, batch, pages], or of all runs in order
  std::vector<std::int32_t> positions_;       // of a head that keeps all, each of these as much
                                              // as it needs
  int runs_of_sequence_ = 1;                  // in a layer
  std::vector<PageRun> runs_;                 // [turns, layers, batch, runs_of_sequence_]
  std::vector<AttentionSequence> sequences_;  // [turns, layers, batch], spans into runs_
  std::vector<float> q_;                      // [batch * queries, heads, head_dim]
  std::vector<float> out_;                    // the same shape
};

}  // namespace swiftkv
