// SPDX-License-Identifier: Apache-2.0
// Forks, appends to, compacts, cuts and ends sequences beside a model of what every head holds, as
// told.
//
// A token's rows follow from a stamp, which follows from all that attention has read before it: the
// tokens, and for those on top of a segment the recipe that it was made by. Rows that were computed
// over something else than the sequence's own past thus show.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "cache/segment_trial.h"

namespace swiftkv {

// How recipes choose.
inline constexpr Keeps kRecipes[] = {KeepsHalf, KeepsRagged, KeepsNone, KeepsQuarter,
                                     KeepsAll,  KeepsHalf,   KeepsAll};

// Where a test's operations and its model live.
class ModelledSegments : public testing::Test {
 protected:
  struct Settings {
    std::vector<KvFormat> formats;  // of sequences, and of kept pages
    double tolerance = 0;           // of a row that went through formats with fewer bits
  };

  // What the heads of layers without a window hold below `end`; nothing is dropped from there on.
  struct Kept {
    std::int64_t end = 0;
    std::map<std::pair<int, int>, std::set<std::int32_t>> positions;
  };
  struct Model {
    std::size_t format = 0;
    PrefixScope scope;
    Tokens tokens;                      // committed
    std::vector<std::uint32_t> stamps;  // of their rows
    std::uint32_t origin = kOrigin;     // stands for the tenant
    std::uint32_t past = kOrigin;       // stands for all that the next token reads
    Kept kept;
    int recipe = 0;  // of the segment
    Tokens prompt;
  };
  // A compaction in pieces that was begun and neither finished nor given up.
  struct Begun {
    CompactionOrder order;
    int recipe = 0;
  };

  static constexpr std::uint32_t kOrigin = 2166136261U;

  static std::uint32_t Mix(std::uint32_t past, std::uint32_t what) {
    past = (past ^ (what + 0x9E3779B9U)) * 16777619U;
    return past ^ (past >> 13);
  }

  std::string RecipeName(int recipe, std::size_t format) const {
    return "recipe " + std::to_string(recipe) + " in " + std::to_string(format);
  }

  // Takes over `count` more tokens, as if they were computed now.
  static void Extend(Model* model, std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      model->past = Mix(model->past, static_cast<std::uint32_t>(token));
      model->tokens.push_back(token);
      model->stamps.push_back(model->past);
    }
  }

  std::optional<SequenceId> Open(const Model& model) {
    const auto id = cache_->CreateSequence(settings_.formats[model.format], model.scope);
    if (!id.ok()) return std::nullopt;
    model_[*id] = model;
    return *id;
  }

  void AdoptSegment(SequenceId id, int recipe) {
    Model& model = model_.at(id);
    const KvFormat& format = settings_.formats[model.format];
    const std::string name = RecipeName(recipe, model.format);
    const std::int64_t found = cache_->FindSegment(format, model.scope, model.prompt, name);
    const auto adopted = cache_->AdoptSegment(id, model.prompt, name);
    if (!adopted.ok()) return;
    ASSERT_EQ(*adopted, found);
    ASSERT_EQ(*adopted, cache_->Length(id));
    if (*adopted == 0) return;
    ASSERT_EQ(model.scope.allowed, Quality::kAny) << "a reader who does not allow it got a segment";
    ++adoptions_;
    Extend(&model, std::span(model.prompt).first(static_cast<std::size_t>(*adopted)));
    KeepBy(&model, recipe, *adopted);
  }

  // What a recipe keeps of a dense prefix, and what is computed on top of it.
  void KeepBy(Model* model, int recipe, std::int64_t end) {
    model->recipe = recipe;
    model->kept.end = end;
    model->past = Mix(Mix(model->past, static_cast<std::uint32_t>(recipe)), 77);
    ForEachHead([&](int layer, int head) {
      std::set<std::int32_t>& kept = model->kept.positions[{layer, head}];
      kept.clear();
      for (std::int32_t p = 0; p < end; ++p) {
        if (kRecipes[recipe](layer, head, p) >= 0) kept.insert(p);
      }
    });
  }

  template <typename Visit>
  void ForEachHead(const Visit& visit) const {
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      if (cache_->layer(layer).window != 0) continue;
      for (int head = 0; head < cache_->layer(layer).kv_heads; ++head) visit(layer, head);
    }
  }

  void AdoptPrefix(SequenceId id) {
    Model& model = model_.at(id);
    const bool agrees = std::equal(
        model.tokens.begin(), model.tokens.end(), model.prompt.begin(),
        model.prompt.begin() +
            static_cast<std::ptrdiff_t>(std::min(model.tokens.size(), model.prompt.size())));
    if (!agrees || model.prompt.size() <= model.tokens.size()) return;
    const auto hit = cache_->AdoptPrefix(id, model.prompt);
    if (!hit.ok()) return;
    hit_ = *hit;
    const auto before = static_cast<std::int64_t>(model.tokens.size());
    ASSERT_GE(hit->tokens, before);
    if (hit->tokens > before && model.kept.end > 0) ++on_top_;
    Extend(&model,
           std::span(model.prompt)
               .subspan(model.tokens.size(), static_cast<std::size_t>(hit->tokens - before)));
  }

  // Stores and commits tokens that there is room for.
  void Append(SequenceId id, const Tokens& tokens) {
    Model& model = model_.at(id);
    Model next = model;
    Extend(&next, tokens);
    StoreStamped(id, next, model.tokens.size());
    cache_->Commit(id, tokens);
    model = std::move(next);
  }

  void StoreStamped(SequenceId id, const Model& model, std::size_t first) {
    const std::size_t count = model.tokens.size() - first;
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      const LayerShape& shape = cache_->layer(layer);
      const auto dim = static_cast<std::size_t>(shape.head_dim);
      const std::size_t stride = dim * static_cast<std::size_t>(shape.kv_heads);
      keys_.resize(stride * count);
      values_.resize(stride * count);
      for (std::size_t t = 0; t < count; ++t) {
        for (int head = 0; head < shape.kv_heads; ++head) {
          const std::size_t at = t * stride + static_cast<std::size_t>(head) * dim;
          StampRow({model.stamps[first + t], layer, head, true}, dim, &keys_[at]);
          StampRow({model.stamps[first + t], layer, head, false}, dim, &values_[at]);
        }
      }
      cache_->StoreRows({.sequence = id,
                         .layer = layer,
                         .first_position = static_cast<std::int64_t>(first),
                         .num_tokens = static_cast<int>(count),
                         .first_head = 0,
                         .end_head = shape.kv_heads,
                         .keys = keys_.data(),
                         .values = values_.data(),
                         .token_stride = stride});
    }
  }

  // By an order that follows from a recipe where others may find what it makes.
  void CompactAs(SequenceId id, const CompactionOrder& order, int recipe) {
    const KvBalance before = cache_->Balance();
    GiveUp(id);
    compaction_ = cache_->Compact(id, order);
    if (!compaction_.ok()) {
      ASSERT_EQ(cache_->Balance().live_tokens, before.live_tokens);
      ++refused_compactions_;
      return;
    }
    BecomeCompacted(id, order, recipe);
  }

  // Returns whether a compaction in pieces was begun; nothing has changed otherwise.
  bool Begin(SequenceId id, const CompactionOrder& order, int recipe) {
    GiveUp(id);
    const Result<bool> begun = cache_->BeginCompaction(id, order);
    EXPECT_TRUE(begun.ok()) << begun.status().message();
    if (!begun.ok() || !*begun) return false;
    begun_[id] = {order, recipe};
    return true;
  }

  void FinishBegun(SequenceId id) {
    const Begun begun = std::move(begun_.at(id));
    begun_.erase(id);
    const std::int64_t length = cache_->Length(id);
    compaction_ = cache_->FinishCompaction(id, begun.order);
    ASSERT_EQ(compaction_->end, begun.order.end);
    ASSERT_EQ(cache_->Length(id), length);
    BecomeCompacted(id, begun.order, begun.recipe);
  }

  // What a begun compaction would have made of the sequence is not to come any more.
  void GiveUp(SequenceId id) { given_up_ += static_cast<int>(begun_.erase(id)); }

  void BecomeCompacted(SequenceId id, const CompactionOrder& order, int recipe) {
    Model& model = model_.at(id);
    ++compactions_;
    if (compaction_->was_there) ++found_there_;
    if (compaction_->findable && order.end == cache_->Length(id)) {
      KeepBy(&model, recipe, order.end);
      return;
    }
    model.kept.end = order.end;
    for (const KeptHead& head : order.heads) {
      model.kept.positions[{head.layer, head.head}] = {head.positions[0].begin(),
                                                       head.positions[0].end()};
    }
    model.past = Mix(model.past, ++unique_);  // nobody else computes the same from here on
  }

  void Cut(SequenceId id, int cut) {
    Model& model = model_.at(id);
    const auto length = static_cast<int>(model.tokens.size());
    const Status status = cache_->Truncate(id, cut);
    if (!status.ok()) {
      ASSERT_EQ(status.code(), StatusCode::kUnsupported);
      return;
    }
    ASSERT_TRUE(cut == 0 || cut >= model.kept.end);
    const auto begun = begun_.find(id);
    if (begun != begun_.end() && cut < begun->second.order.end) GiveUp(id);
    model.tokens.resize(static_cast<std::size_t>(cut));
    model.stamps.resize(static_cast<std::size_t>(cut));
    if (cut == 0) {
      model.kept = {};
      model.past = model.origin;
    } else if (cut < length) {
      if (model.kept.end == 0) {
        model.past = model.stamps.back();
      } else if (cut > model.kept.end) {
        model.past = model.stamps.back();
      } else {
        Release(id);  // the past of a segment's end is known to KeepBy alone
      }
    }
  }

  void Release(SequenceId id) {
    GiveUp(id);
    cache_->Release(id);
    model_.erase(id);
  }

  std::optional<SequenceId> Fork(SequenceId id) {
    const auto child = cache_->Fork(id);
    if (!child.ok()) return std::nullopt;
    const Model copy = model_.at(id);
    model_[*child] = copy;
    return *child;
  }

  void CheckHead(SequenceId id, const Model& model, int layer, int head) {
    const LayerShape& shape = cache_->layer(layer);
    const SeenRows seen = RowsSeen(*cache_, id, layer, head);
    const auto length = static_cast<std::int64_t>(model.tokens.size());
    std::int64_t expected = length - OldestVisibleBlock(length, shape.window) * kPageTokens;
    if (shape.window == 0 && model.kept.end > 0) {
      const auto& kept = model.kept.positions.at({layer, head});
      expected = length - model.kept.end + static_cast<std::int64_t>(kept.size());
      for (const std::int32_t position : kept) ASSERT_TRUE(seen.count(position)) << position;
    }
    const auto found_rows = static_cast<std::int64_t>(seen.size());
    if (shape.window == 0) {
      ASSERT_EQ(found_rows, expected);
    } else {
      ASSERT_GE(found_rows, expected);
    }
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    std::vector<float> row(2 * dim);
    for (const auto& [position, found] : seen) {
      const std::uint32_t stamp = model.stamps[static_cast<std::size_t>(position)];
      StampRow({stamp, layer, head, true}, dim, row.data());
      StampRow({stamp, layer, head, false}, dim, row.data() + dim);
      if (settings_.tolerance == 0) {
        ASSERT_EQ(found, row) << "layer " << layer << " position " << position;
      } else {
        ASSERT_LE(RelativeError(found, row), settings_.tolerance)
            << "layer " << layer << " position " << position;
      }
    }
  }

  void CheckSequence(SequenceId id) {
    const Model& model = model_.at(id);
    ASSERT_EQ(cache_->Length(id), static_cast<std::int64_t>(model.tokens.size()));
    ASSERT_EQ(cache_->SegmentEnd(id), model.kept.end);
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      for (int head = 0; head < cache_->layer(layer).kv_heads; ++head) {
        CheckHead(id, model, layer, head);
        if (HasFatalFailure()) return;
      }
    }
  }

  Settings settings_;
  std::unique_ptr<KvCache> cache_;
  std::map<SequenceId, Model> model_;
  std::map<SequenceId, Begun> begun_;
  PrefixHit hit_;                                             // of the last look-up
  Result<CompactionResult> compaction_ = CompactionResult{};  // the last one
  std::int64_t now_ = 0;
  std::uint32_t unique_ = 1000000;
  int adoptions_ = 0;
  int on_top_ = 0;
  int compactions_ = 0;
  int found_there_ = 0;
  int given_up_ = 0;
  int refused_compactions_ = 0;
  std::vector<float> keys_;
  std::vector<float> values_;
};

}  // namespace swiftkv
