// SPDX-License-Identifier: Apache-2.0
// Declares the two ways in which sequences become tiles and items: by their rows or by their pages.
#pragma once

#include <span>
#include <vector>

#include "attention/page_stretches.h"
#include "attention/work_tables.h"
#include "swiftkv/attention.h"

namespace swiftkv {

inline constexpr int kEnoughItems = 12;  // evens out what up to 4 threads get

// Rows of one sequence that a tile takes, for one kv head.
struct RowBlock {
  int sequence;
  int kv_head;
  int first_row;  // within the sequence
  int num_rows;
};

// The pages that a block may see.
VisiblePages PagesOf(const AttentionBatch& batch, const RowBlock& block);

// Cuts a sequence of many rows into blocks of up to kMaxTileVectors query vectors.
void AppendBlocks(const AttentionBatch& batch, int sequence, std::vector<RowBlock>* blocks);

// Adds a block as a tile. Its pages are left in one piece where `whole`, else in a few large ones.
void AddBlock(const AttentionBatch& batch, const RowBlock& block, bool whole, WorkTables* tables);

// Adds sequences of few rows: their pages are cut for threads to share, and read once for all
// sequences that hold them.
void AddReaders(const AttentionBatch& batch, std::span<const int> sequences, WorkTables* tables);

}  // namespace swiftkv
