// SPDX-License-Identifier: Apache-2.0
// Runs a cache beside a slow model of it and compares lengths, contents, sharing and bytes.
//
// The model of a sequence is the list of its tokens. A token's seed decides the rows of every layer
// and head; its passes count, for each layer group, how often the token changed between the open
// and the sealed layout, and so through which codecs its rows went. A block has an identity that
// forks share and that writing renews: equal identities in one layout must be one frame.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/process_memory.h"
#include "cache/block_layout.h"
#include "cache/cache_geometries.h"
#include "cache/equal_balances.h"
#include "cache/format_plan.h"
#include "cache/stamped_rows.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

class ModelledCache {
 public:
  struct Counts {
    int forks = 0;
    int refusals = 0;
    int seals = 0;
    int reopenings = 0;
    int deferred = 0;  // blocks that a commit left open although they were old
    int twins = 0;     // blocks that two sequences were seen to share sealed
  };

  // The first format is the cache's own.
  ModelledCache(const TestGeometry& geometry, const std::vector<KvFormat>& formats,
                std::uint64_t memory_bytes)
      : geometry_(CacheGeometry::For(geometry.layers).value()), memory_bytes_(memory_bytes) {
    KvCacheOptions options;
    options.layers = geometry.layers;
    options.key_format = formats[0].key;
    options.value_format = formats[0].value;
    options.memory_bytes = memory_bytes;
    options.poison_free_frames = true;
    auto cache = KvCache::Create(options);
    EXPECT_TRUE(cache.ok()) << cache.status().message();
    cache_ = std::move(cache).value();
    for (const KvFormat& format : formats) {
      const FormatPlan plan = FormatPlan::For(geometry.layers, format.key, format.value).value();
      formats_.push_back({format, BlockLayout::For(geometry_, plan.open),
                          BlockLayout::For(geometry_, plan.sealed)});
    }
  }

  KvCache& cache() { return *cache_; }
  const Counts& counts() const { return counts_; }
  const std::vector<SequenceId>& sequences() const { return ids_; }
  int Length(SequenceId id) const { return static_cast<int>(model_.at(id).tokens.size()); }

  // False where the cache has no room.
  bool Create(std::size_t format, SequenceId* created) {
    const auto id =
        format == 0 ? cache_->CreateSequence() : cache_->CreateSequence(formats_[format].format);
    if (!id.ok()) {
      EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted);
      return false;
    }
    EXPECT_EQ(model_.count(*id), 0U) << "a live id was handed out again";
    model_[*id] = {};
    model_[*id].format = format;
    ids_.push_back(*id);
    *created = *id;
    return true;
  }

  void Fork(SequenceId parent) {
    const auto id = cache_->Fork(parent);
    if (!id.ok()) return;
    const ModelSequence copy = model_.at(parent);
    model_[*id] = copy;
    ids_.push_back(*id);
    ++counts_.forks;
  }

  void Release(SequenceId id) {
    cache_->Release(id);
    model_.erase(id);
    std::iter_swap(std::find(ids_.begin(), ids_.end(), id), ids_.end() - 1);
    ids_.pop_back();
  }

  // Reserves tokens of these seeds, stores them and commits the first `commit`.
  void Step(SequenceId id, const std::vector<std::uint32_t>& seeds, int commit) {
    const KvBalance before = cache_->Balance();
    const Status status = cache_->Reserve(id, static_cast<int>(seeds.size()));
    if (!status.ok()) {
      ++counts_.refusals;
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
      ExpectSameBalance(before, cache_->Balance());
      return;
    }
    ModelSequence& sequence = model_.at(id);
    const std::size_t length = sequence.tokens.size();
    if (length % kPageTokens != 0) {
      sequence.blocks.back() = next_block_++;
      for (std::size_t group = 0; group < geometry_.groups.size(); ++group) {
        FollowReserve(&sequence, group, SealedBlocks(id, group));
      }
    }
    for (int layer = 0; layer < cache_->num_layers(); ++layer) StoreLayer(id, layer, seeds);
    cache_->Commit(id, commit);
    for (int i = 0; i < commit; ++i) {
      if (sequence.tokens.size() % kPageTokens == 0) sequence.blocks.push_back(next_block_++);
      sequence.tokens.push_back({seeds[static_cast<std::size_t>(i)], {}});
    }
    for (std::size_t group = 0; group < geometry_.groups.size(); ++group) {
      FollowCommit(&sequence, group, SealedBlocks(id, group));
    }
  }

  void Truncate(SequenceId id, int length) {
    ModelSequence& sequence = model_.at(id);
    const Status status = cache_->Truncate(id, length);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kUnsupported);
      return;
    }
    sequence.tokens.resize(static_cast<std::size_t>(length));
    sequence.blocks.resize(static_cast<std::size_t>(BlocksFor(length)));
  }

  // Recounts everything; decodes what `looks_at(layer)` says of every sequence.
  template <typename LooksAt>
  void Check(const LooksAt& looks_at) {
    cache_->CheckInvariants();
    const KvBalance balance = cache_->Balance();
    ASSERT_LE(balance.peak_bytes, memory_bytes_);
    std::uint64_t tokens = 0;
    for (const auto& [id, sequence] : model_) {
      tokens += sequence.tokens.size();
      ASSERT_EQ(cache_->Length(id), static_cast<std::int64_t>(sequence.tokens.size()));
      for (int layer = 0; layer < cache_->num_layers(); ++layer) {
        if (looks_at(layer)) CheckContents(id, layer);
      }
    }
    CheckSharing();
    ASSERT_EQ(balance.live_tokens, tokens);
  }

  void CheckAll() {
    Check([](int) { return true; });
  }

  // Reads one page of what a sequence sees of a layer, and compares it with its owner's stamps.
  void ReadPage(SequenceId id, int layer, std::uint32_t choice) {
    const std::vector<PageRun>& runs = Runs(id, layer);
    if (runs.empty()) return;
    const PageRun& run = runs[choice % runs.size()];
    const int first = static_cast<int>(choice / 4) % run.num_pages * kPageTokens;
    const ModelSequence& sequence = model_.at(id);
    for (int t = first; t < std::min(first + kPageTokens, run.num_tokens); ++t) {
      CheckToken(sequence, run, layer, t);
    }
  }

  void CheckBound() const { ASSERT_LE(cache_->Balance().peak_bytes, memory_bytes_); }

  // Asks the kernel: every frame and every rest was written, so that it counts all of them.
  void CheckResident() {
    for (const SequenceId id : ids_) {
      for (const LayerGroup& group : geometry_.groups) {
        for (const PageRun& run : Runs(id, group.layers.front())) {
          arenas_[run.base] = memory_bytes_ / run.frame_stride * run.frame_stride;
        }
      }
    }
    std::uint64_t resident = 0;
    for (const auto& [arena, bytes] : arenas_) resident += ResidentBytes(arena, bytes).value();
    const KvBalance balance = cache_->Balance();
    ASSERT_EQ(resident, balance.mapped_bytes - balance.metadata_bytes);
    ASSERT_LE(resident + balance.metadata_bytes, memory_bytes_);
  }

 private:
  static constexpr std::size_t kMostGroups = 2;

  struct ModelToken {
    std::uint32_t seed = 0;
    std::array<int, kMostGroups> passes{};  // odd while the token is sealed
  };
  struct ModelSequence {
    std::size_t format = 0;
    std::vector<ModelToken> tokens;  // from position 0
    std::vector<int> blocks;         // identities
  };
  struct ModelFormat {
    KvFormat format;
    BlockLayout open;
    BlockLayout sealed;
  };
  // Blocks [first, sealed_end) are sealed; equal where none is.
  struct SealedRange {
    std::int64_t first = 0;
    std::int64_t end = 0;
  };

  const std::vector<PageRun>& Runs(SequenceId id, int layer) {
    runs_.clear();
    cache_->AppendRuns(id, layer, 0, &runs_);
    return runs_;
  }

  // Reads off the runs of the group's first layer which blocks are sealed.
  SealedRange SealedBlocks(SequenceId id, std::size_t group) {
    const ModelFormat& format = formats_[model_.at(id).format];
    SealedRange range;
    if (format.open.frame_bytes[group] == format.sealed.frame_bytes[group]) return range;
    const std::vector<PageRun>& runs = Runs(id, geometry_.groups[group].layers.front());
    for (const PageRun& run : runs) {
      if (run.frame_stride != format.sealed.frame_bytes[group]) continue;
      EXPECT_EQ(range.end, 0) << "sealed blocks make one run";
      range.first = run.first_position / kPageTokens;
      range.end = range.first + run.num_pages;
    }
    if (range.end == 0) return {};
    EXPECT_EQ(range.first, std::max<std::int64_t>(1, runs.front().first_position / kPageTokens));
    return range;
  }

  // To reserve in a partial block opens it; nothing else changes.
  void FollowReserve(ModelSequence* sequence, std::size_t group, SealedRange sealed) {
    const std::size_t length = sequence->tokens.size();
    const std::size_t last = length / kPageTokens;
    EXPECT_LE(sealed.end, static_cast<std::int64_t>(last)) << "a block to be written is sealed";
    for (std::size_t t = last * kPageTokens; t < length; ++t) {
      int& passes = sequence->tokens[t].passes[group];
      if (passes % 2 == 0) continue;
      ++passes;
      if (t % kPageTokens == 0) ++counts_.reopenings;
    }
  }

  // To commit may seal what is old enough.
  void FollowCommit(ModelSequence* sequence, std::size_t group, SealedRange sealed) {
    const auto length = static_cast<std::int64_t>(sequence->tokens.size());
    for (std::int64_t block = sealed.first; block < sealed.end; ++block) {
      const auto first = static_cast<std::size_t>(block * kPageTokens);
      if (sequence->tokens[first].passes[group] % 2 != 0) continue;
      EXPECT_LE((block + 1) * kPageTokens, length - 128) << "sealed too early";
      EXPECT_GT(block, 0) << "block 0 is never sealed";
      ++counts_.seals;
      for (std::size_t t = first; t < first + kPageTokens; ++t) ++sequence->tokens[t].passes[group];
    }
    const ModelFormat& format = formats_[sequence->format];
    if (format.open.frame_bytes[group] == format.sealed.frame_bytes[group]) return;
    const std::int64_t oldest = OldestVisibleBlock(length, geometry_.window(group));
    const std::int64_t due = (length - 128) / kPageTokens;
    counts_.deferred += static_cast<int>(
        std::max<std::int64_t>(0, due - std::max({sealed.end, oldest, std::int64_t{1}})));
  }

  void StoreLayer(SequenceId id, int layer, const std::vector<std::uint32_t>& seeds) {
    const LayerShape& shape = cache_->layer(layer);
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    const std::size_t stride = dim * static_cast<std::size_t>(shape.kv_heads) + 3;
    keys_.resize(stride * seeds.size());
    values_.resize(stride * seeds.size());
    for (std::size_t t = 0; t < seeds.size(); ++t) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        const std::size_t at = t * stride + static_cast<std::size_t>(head) * dim;
        StampRow({seeds[t], layer, head, true}, dim, &keys_[at]);
        StampRow({seeds[t], layer, head, false}, dim, &values_[at]);
      }
    }
    // Split by heads, as threads would.
    const int middle = shape.kv_heads / 2;
    for (const auto& [first, end] : {std::pair(0, middle), std::pair(middle, shape.kv_heads)}) {
      cache_->StoreRows({.sequence = id,
                         .layer = layer,
                         .first_position = cache_->Length(id),
                         .num_tokens = static_cast<int>(seeds.size()),
                         .first_head = first,
                         .end_head = end,
                         .keys = keys_.data(),
                         .values = values_.data(),
                         .token_stride = stride});
    }
  }

  // Decodes what a query at the end sees of one layer and compares it with the model.
  void CheckContents(SequenceId id, int layer) {
    const ModelSequence& sequence = model_.at(id);
    const LayerShape& shape = cache_->layer(layer);
    const auto length = static_cast<std::int64_t>(sequence.tokens.size());
    std::vector<PageRun> runs;
    cache_->AppendRuns(id, layer, 0, &runs);
    ASSERT_LE(runs.size(), 3U);
    std::int64_t next = 0;
    for (const PageRun& run : runs) {
      if (next == 0) {
        const std::int64_t oldest =
            shape.window == 0 ? 0 : std::max<std::int64_t>(0, length - shape.window + 1);
        ASSERT_LE(run.first_position, oldest);
        // No more is kept than a window and the block that it starts in.
        if (shape.window > 0) {
          ASSERT_GT(run.first_position + kPageTokens, oldest);
        }
      } else {
        ASSERT_EQ(run.first_position, next);
      }
      next = run.first_position + run.num_tokens;
      ASSERT_EQ(run.num_pages, BlocksFor(run.num_tokens));
      for (int t = 0; t < run.num_tokens; ++t) CheckToken(sequence, run, layer, t);
    }
    ASSERT_EQ(next, length);
  }

  void CheckToken(const ModelSequence& sequence, const PageRun& run, int layer, int t) {
    const LayerShape& shape = cache_->layer(layer);
    const ModelToken& token = sequence.tokens[static_cast<std::size_t>(run.first_position + t)];
    const ModelFormat& format = formats_[sequence.format];
    const auto index = static_cast<std::size_t>(layer);
    const auto group = static_cast<std::size_t>(format.open.places[index].group);
    const bool is_sealed = token.passes[group] % 2 != 0;
    ASSERT_EQ(run.format, (is_sealed ? format.sealed : format.open).places[index].format)
        << "position " << run.first_position + t;
    const SlotRange slot = {t % kPageTokens, 1};
    row_.resize(static_cast<std::size_t>(shape.head_dim));
    for (const bool is_key : {true, false}) {
      ListCodecs(token, format, layer, is_key);
      for (int head = 0; head < shape.kv_heads; ++head) {
        const std::byte* const page = run.Page(t / kPageTokens, head);
        const PlaneView plane = is_key ? KeyPlane(run.format, run.layout, shape.head_dim, page)
                                       : ValuePlane(run.format, run.layout, shape.head_dim, page);
        codecs_.back()->Decode(plane, slot, row_.data(), row_.size());
        expected_.resize(row_.size());
        StampRow({token.seed, layer, head, is_key}, expected_.size(), expected_.data());
        SendThrough(codecs_, is_key ? Plane::kKey : Plane::kValue, &expected_);
        ASSERT_EQ(row_, expected_) << "position " << run.first_position + t;
      }
    }
  }

  // Lists the codecs of the layouts that the token was in.
  void ListCodecs(const ModelToken& token, const ModelFormat& format, int layer, bool is_key) {
    const auto index = static_cast<std::size_t>(layer);
    const LayerPlace& open = format.open.places[index];
    const LayerPlace& sealed = format.sealed.places[index];
    codecs_.clear();
    for (int pass = 0; pass <= token.passes[static_cast<std::size_t>(open.group)]; ++pass) {
      const PageFormat& now = (pass % 2 == 0 ? open : sealed).format;
      codecs_.push_back(is_key ? now.key : now.value);
    }
  }

  // Blocks of one identity and layout are one frame.
  void CheckSharing() {
    for (const LayerGroup& group : geometry_.groups) {
      std::map<std::pair<int, const std::byte*>, const std::byte*> seen;  // (identity, arena)
      for (const auto& [id, sequence] : model_) {
        std::vector<PageRun> runs;
        cache_->AppendRuns(id, group.layers.front(), 0, &runs);
        for (const PageRun& run : runs) {
          for (int page = 0; page < run.num_pages; ++page) {
            const auto block = static_cast<std::size_t>(run.first_position / kPageTokens + page);
            const auto [known, is_new] =
                seen.insert({{sequence.blocks[block], run.base}, run.Page(page, 0)});
            ASSERT_EQ(known->second, run.Page(page, 0)) << "two copies of block " << block;
            if (!is_new && runs.size() > 1 && &run == &runs[1]) ++counts_.twins;
          }
        }
      }
    }
  }

  const CacheGeometry geometry_;
  const std::uint64_t memory_bytes_;
  std::unique_ptr<KvCache> cache_;
  std::vector<ModelFormat> formats_;
  std::map<SequenceId, ModelSequence> model_;
  std::vector<SequenceId> ids_;                     // of model_, in no order
  std::map<const std::byte*, std::size_t> arenas_;  // seen in runs -> bytes
  int next_block_ = 0;
  Counts counts_;
  // Scratch.
  std::vector<PageRun> runs_;
  std::vector<float> keys_;
  std::vector<float> values_;
  std::vector<float> row_;
  std::vector<float> expected_;
  std::vector<const PageCodec*> codecs_;
};

}  // namespace swiftkv
