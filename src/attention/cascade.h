// SPDX-License-Identifier: Apache-2.0
// Numbers the chunks of pages that a set of readers reads, each shared one once for all its
// readers.
//
// A reader is the few rows of one sequence, as in decoding. Its chunks are numbered from the oldest
// page on, whoever reads them; that number is the order in which partial results are merged. Plain
// data for one kv head, or for all of them where they see the same runs. Attention over shared
// prefixes, read once and merged per query: Hydragen, arXiv:2402.05099.
#pragma once

#include <span>
#include <vector>

#include "attention/page_stretches.h"
#include "attention/shared_pages.h"
#include "attention/work_tables.h"

namespace swiftkv {

inline constexpr int kUnitPages = 8;  // sharing is found in stretches of 128 tokens

struct CascadeChunk {
  int first_stretch;  // of the list, among those of the group's first member
  int end_stretch;
  PageAmount amount;
};

struct CascadeMember {
  int reader;
  int first_chunk;  // the reader's number of the group's first chunk; the others follow
};

// Chunks one behind the other that have the same readers.
struct CascadeGroup {
  int first_member;
  int end_member;
  int first_chunk;
  int end_chunk;
};

struct Cascade {
  std::vector<CascadeGroup> groups;
  std::vector<CascadeMember> members;
  std::vector<CascadeChunk> chunks;
  std::vector<int> num_chunks;  // per reader
};

// Joins stretches of kUnitPages into chunks that end at absolute multiples of `chunk_pages`, a
// multiple of kUnitPages, and where the readers change.
Cascade MakeCascade(std::span<const PageReader> readers, const StretchList& list,
                    const SharedPages& shared, int chunk_pages);

}  // namespace swiftkv
