// SPDX-License-Identifier: Apache-2.0
// Cuts the pages of sequences of few rows into chunks, which bytes are what they cost, and gives a
// chunk that several sequences hold to one tile of all their rows.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "attention/cascade.h"
#include "attention/row_cuts.h"

namespace swiftkv {
namespace {

constexpr int kChunkPages = 32;    // 512 tokens
constexpr int kMinChunkPages = 8;  // shorter ones cost more to merge than they give

static_assert(kMinChunkPages % kUnitPages == 0);

struct HeadRange {
  int first;
  int end;
};

// The readers of a batch; a reader's index is that of its sequence in `sequences`.
struct Readers {
  const AttentionBatch& batch;
  std::span<const int> sequences;

  const AttentionSequence& operator[](int reader) const {
    return batch.sequences[static_cast<std::size_t>(sequences[static_cast<std::size_t>(reader)])];
  }
  int size() const { return static_cast<int>(sequences.size()); }
};

// Returns into how many tiles of equal size rows are cut.
int CountTiles(int rows, int group) {
  const int most = kMaxTileVectors / group;
  return (rows + most - 1) / most;
}

int CountRows(const Readers& readers, const Cascade& cascade, const CascadeGroup& group) {
  int rows = 0;
  for (int m = group.first_member; m < group.end_member; ++m) {
    rows += readers[cascade.members[static_cast<std::size_t>(m)].reader].num_rows;
  }
  return rows;
}

bool SeesSameRunsInAllHeads(const Readers& readers) {
  for (int r = 0; r < readers.size(); ++r) {
    for (const PageRun& run : readers[r].runs) {
      if (run.first_head > 0 || run.end_head < readers.batch.shape.num_kv_heads) return false;
    }
  }
  return true;
}

// Adds the tiles of one kv head.
class CascadeTiles {
 public:
  CascadeTiles(const Readers& readers, const Cascade& cascade, int kv_head, WorkTables* tables)
      : readers_(readers), cascade_(cascade), kv_head_(kv_head), tables_(*tables) {
    for (int r = 0; r < readers.size(); ++r) {
      first_partials_.push_back(
          tables_.AddResults({readers[r].first_row, readers[r].num_rows, kv_head, NumChunks(r)}));
    }
  }

  void Add(std::span<const SpanRange> chunks) {
    for (const CascadeGroup& group : cascade_.groups) {
      rows_.clear();
      for (int m = group.first_member; m < group.end_member; ++m) {
        const CascadeMember& member = cascade_.members[static_cast<std::size_t>(m)];
        AppendRows(member.reader, member.first_chunk);
      }
      const auto first = static_cast<std::size_t>(group.first_chunk);
      const auto count = static_cast<std::size_t>(group.end_chunk - group.first_chunk);
      AddTiles(cascade_.members[static_cast<std::size_t>(group.first_member)].reader,
               chunks.subspan(first, count));
    }
    for (int r = 0; r < readers_.size(); ++r) {
      if (NumChunks(r) > 0) continue;
      rows_.clear();
      AppendRows(r, 0);
      AddTiles(r, {});
    }
  }

 private:
  int NumChunks(int reader) const { return cascade_.num_chunks[static_cast<std::size_t>(reader)]; }

  void AppendRows(int reader, int first_chunk) {
    const AttentionSequence& sequence = readers_[reader];
    const int num_chunks = NumChunks(reader);
    for (int i = 0; i < sequence.num_rows; ++i) {
      const auto before = static_cast<std::size_t>(i * num_chunks + first_chunk);
      rows_.push_back({.position = sequence.first_position + i,
                       .first_partial = first_partials_[static_cast<std::size_t>(reader)] +
                                        before * tables_.group,
                       .batch_row = sequence.first_row + i,
                       .only_chunk = num_chunks <= 1});
    }
  }

  // Adds `rows_` as tiles of about the same size, which read the runs of `reader`.
  void AddTiles(int reader, std::span<const SpanRange> chunks) {
    const auto tiles =
        static_cast<std::size_t>(CountTiles(static_cast<int>(rows_.size()), tables_.group));
    for (std::size_t t = 0; t < tiles; ++t) {
      const std::size_t first = rows_.size() * t / tiles;
      const std::size_t end = rows_.size() * (t + 1) / tiles;
      tables_.AddTile(readers_.sequences[static_cast<std::size_t>(reader)], kv_head_,
                      std::span(rows_).subspan(first, end - first), chunks);
    }
  }

  const Readers& readers_;
  const Cascade& cascade_;
  int kv_head_;
  WorkTables& tables_;
  std::vector<std::size_t> first_partials_;  // per reader
  std::vector<TileRow> rows_;                // of a group
};

// Kv heads that see the same runs, the stretches of pages that all readers see of them, and how
// these are joined into chunks.
class HeadCuts {
 public:
  HeadCuts(const Readers& readers, HeadRange heads, const WorkTables& tables)
      : readers_(readers), heads_(heads) {
    for (int r = 0; r < readers.size(); ++r) {
      const int first = static_cast<int>(list_.stretches.size());
      const int sequence = readers.sequences[static_cast<std::size_t>(r)];
      AppendStretches(PagesOf(readers.batch, {sequence, heads.first, 0, readers[r].num_rows}),
                      kUnitPages, &list_);
      page_readers_.push_back({readers[r].runs, first, static_cast<int>(list_.stretches.size())});
    }
    shared_.emplace(page_readers_, list_);
    Join(tables);
  }

  double largest() const { return largest_; }  // cost of an item
  double total() const { return total_; }      // of the items of all these heads

  // Returns whether chunks could be made smaller, and makes them so.
  bool Halve(const WorkTables& tables) {
    if (chunk_pages_ == kMinChunkPages) return false;
    chunk_pages_ /= 2;
    Join(tables);
    return true;
  }

  void AddTiles(WorkTables* tables) const {
    std::vector<SpanRange> chunks;
    for (const CascadeChunk& chunk : cascade_.chunks) {
      chunks.push_back(tables->AddSpans(list_, chunk.first_stretch, chunk.end_stretch));
    }
    for (int head = heads_.first; head < heads_.end; ++head) {
      CascadeTiles(readers_, cascade_, head, tables).Add(chunks);
    }
  }

 private:
  void Join(const WorkTables& tables) {
    cascade_ = MakeCascade(page_readers_, list_, *shared_, chunk_pages_);
    largest_ = total_ = 0;
    for (const CascadeGroup& group : cascade_.groups) {
      const int rows = CountRows(readers_, cascade_, group);
      const int tiles = CountTiles(rows, tables.group);
      const int vectors = (rows + tiles - 1) / tiles * tables.group;
      for (int c = group.first_chunk; c < group.end_chunk; ++c) {
        const CascadeChunk& chunk = cascade_.chunks[static_cast<std::size_t>(c)];
        const double cost = tables.ItemCost(vectors, chunk.amount);
        largest_ = std::max(largest_, cost);
        total_ += cost * tiles * (heads_.end - heads_.first);
      }
    }
  }

  const Readers& readers_;
  HeadRange heads_;
  StretchList list_;
  std::vector<PageReader> page_readers_;
  std::optional<SharedPages> shared_;
  int chunk_pages_ = kChunkPages;
  Cascade cascade_;
  double largest_ = 0;
  double total_ = 0;
};

// Makes chunks smaller until no item is so large that the other threads would wait for it. Heads
// may see unlike amounts: what counts is the work of all.
void Even(const WorkTables& tables, std::span<HeadCuts> cuts) {
  for (bool changed = true; changed;) {
    double total = 0;
    for (const HeadCuts& each : cuts) total += each.total();
    changed = false;
    for (HeadCuts& each : cuts) {
      if (each.largest() * kEnoughItems > total) changed = each.Halve(tables) || changed;
    }
  }
}

}  // namespace

void AddReaders(const AttentionBatch& batch, std::span<const int> sequences, WorkTables* tables) {
  if (sequences.empty()) return;
  const Readers readers{batch, sequences};
  const int kv_heads = batch.shape.num_kv_heads;
  const int alike = SeesSameRunsInAllHeads(readers) ? kv_heads : 1;
  std::vector<HeadCuts> cuts;
  for (int head = 0; head < kv_heads; head += alike) {
    cuts.emplace_back(readers, HeadRange{head, head + alike}, *tables);
  }
  Even(*tables, cuts);
  for (const HeadCuts& each : cuts) each.AddTiles(tables);
}

}  // namespace swiftkv
