// SPDX-License-Identifier: Apache-2.0
// Draws operations on modelled sequences: who does what, and how much of it.
//
// A compaction in pieces is begun by one operation and continued by later ones, with whatever else
// is drawn in between, to its own sequence too: that is appended to, forked, cut behind and within
// what is being compacted, compacted at once, and ended.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "cache/modelled_segments.h"

namespace swiftkv {

// The first recipes of kRecipes, from which is drawn.
inline constexpr int kNumRecipes = 3;

class RandomSegments : public ModelledSegments {
 protected:
  // How often what is rare came about.
  struct Coverage {
    int refusals = 0;  // of room to append
    int pins = 0;
    int begun = 0;            // compactions in pieces
    int finished = 0;         // of these
    int between = 0;          // pieces that came after other operations
    int grown = 0;            // finished with tokens that had come behind
    int forked = 0;           // while begun
    int cut_behind = 0;       // while begun, and went on
    int dropped = 0;          // begun while DropPrefixes was called
    int evicted = 0;          // finished after something was evicted
    int found_at_finish = 0;  // another had made the same meanwhile
    int named_at_finish = 0;  // others find it
  };

  int Below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  template <typename Map>
  SequenceId AnyIn(const Map& map) {
    auto at = map.begin();
    std::advance(at, Below(static_cast<int>(map.size())));
    return at->first;
  }

  SequenceId Any() { return AnyIn(model_); }

  void RandomOperation() {
    ++operations_;
    const int choice = Below(124);
    if (model_.empty() || (choice < 16 && model_.size() < 8)) {
      Create();
    } else if (choice < 50) {
      Step(Any());
    } else if (choice < 56) {
      AdoptPrefix(Any());
    } else if (choice < 62) {
      ForkAny();
    } else if (choice < 78) {
      Compact(Any());
    } else if (choice < 84) {
      Truncate(Any());
    } else if (choice < 96) {
      Release(Any());
    } else if (choice < 100) {
      PinOrDrop(Any());
    } else if (begun_.empty()) {
      Compact(Any());
    } else {
      ContinueAny();
    }
  }

  // One of few documents, or its beginning, and some tokens behind it, so that prompts begin alike.
  Tokens RandomPrompt() {
    const int document = Below(3);
    Tokens prompt;
    for (int i = (2 + Below(5)) * kPageTokens; i > 0; --i) {
      prompt.push_back((static_cast<int>(prompt.size()) * (document + 3)) % 7);
    }
    for (int i = Below(40); i >= 0; --i) prompt.push_back(Below(2));
    return prompt;
  }

  void Create() {
    Model model;
    model.format = static_cast<std::size_t>(Below(static_cast<int>(settings_.formats.size())));
    model.scope.tenant_salt = "tenant";
    model.scope.allowed = Below(4) == 0 ? Quality::kExact : Quality::kAny;
    model.prompt = RandomPrompt();
    const auto id = Open(model);
    if (!id) return;
    for (int i = Below(kNumRecipes), last = i + 2; i <= last; ++i) {
      if (cache_->Length(*id) == 0) AdoptSegment(*id, i % kNumRecipes);
    }
    AdoptPrefix(*id);
  }

  void Step(SequenceId id) {
    Model& model = model_.at(id);
    int count = 1 + Below(Below(2) == 0 ? 4 : 100);
    // Often to the end of a block, where others may go on.
    const auto rest = static_cast<int>(model.tokens.size() % kPageTokens);
    if (Below(2) == 0) count = (count / kPageTokens + 1) * kPageTokens - rest;
    if (!cache_->Reserve(id, count).ok()) {
      ++coverage_.refusals;
      return;
    }
    Tokens tokens;
    for (int i = 0; i < count; ++i) {
      const std::size_t at = model.tokens.size() + static_cast<std::size_t>(i);
      tokens.push_back(at < model.prompt.size() ? model.prompt[at] : Below(2));
    }
    Append(id, tokens);
  }

  void Compact(SequenceId id) {
    Model& model = model_.at(id);
    const auto blocks = static_cast<int>(model.tokens.size() / kPageTokens);
    if (blocks == 0 || model.scope.allowed == Quality::kExact) return;
    Choice choice = {Below(kNumRecipes), 1 + Below(blocks)};
    if (Below(2) == 0) choice.end = blocks;
    choice.end *= kPageTokens;
    const auto twin = ChoiceOfTwin(id);
    if (twin && Below(2) == 0) choice = *twin;
    if (choice.end < model.kept.end) return;
    const bool shareable = model.kept.end == 0 && (twin || Below(4) > 0);
    std::vector<KvFormat> formats = {settings_.formats[model.format]};
    if (!shareable) {
      formats[0] =
          settings_
              .formats[static_cast<std::size_t>(Below(static_cast<int>(settings_.formats.size())))];
    }
    CompactionOrder order = OrderOf(*cache_, id, choice.end, formats, kRecipes[choice.recipe]);
    order.recipe = RecipeName(choice.recipe, model.format);
    order.shareable = shareable;
    if (Below(2) == 0 && Begin(id, order, choice.recipe)) {
      ++coverage_.begun;
      since_[id] = {operations_, Evictions(), cache_->Length(id)};
      return;
    }
    CompactAs(id, order, choice.recipe);
    ASSERT_TRUE(compaction_.ok() || compaction_.status().code() == StatusCode::kResourceExhausted);
  }

  // A recipe, and up to where.
  struct Choice {
    int recipe = 0;
    std::int64_t end = 0;
  };

  // Returns how another compacts, or did, that holds the same tokens: the segment gets its name.
  std::optional<Choice> ChoiceOfTwin(SequenceId id) const {
    const Model& model = model_.at(id);
    for (const auto& [other_id, other] : model_) {
      Choice choice = {other.recipe, other.kept.end};
      const auto begun = begun_.find(other_id);
      if (begun != begun_.end() && begun->second.order.shareable) {
        choice = {begun->second.recipe, begun->second.order.end};
      }
      const auto end = static_cast<std::ptrdiff_t>(choice.end);
      if (other_id != id && end > 0 && other.format == model.format &&
          std::ssize(model.tokens) >= end &&
          std::equal(model.tokens.begin(), model.tokens.begin() + end, other.tokens.begin())) {
        return choice;
      }
    }
    return std::nullopt;
  }

  // Has one that was begun copy some blocks, and finishes it or lets it wait where that was all.
  void ContinueAny() {
    const SequenceId id = AnyIn(begun_);
    if (operations_ > std::exchange(since_.at(id).operation, operations_) + 1) ++coverage_.between;
    if (!cache_->ContinueCompaction(id, 1 + Below(5)) || Below(3) == 0) return;
    if (cache_->Length(id) > since_.at(id).length) ++coverage_.grown;
    if (Evictions() > since_.at(id).evictions) ++coverage_.evicted;
    FinishBegun(id);
    ++coverage_.finished;
    if (compaction_->was_there) ++coverage_.found_at_finish;
    if (compaction_->findable) ++coverage_.named_at_finish;
  }

  std::uint64_t Evictions() const {
    return cache_->prefix_counters().evicted_blocks + cache_->segment_totals().evictions;
  }

  void ForkAny() {
    const SequenceId id = begun_.empty() || Below(2) == 0 ? Any() : AnyIn(begun_);
    const auto child = Fork(id);
    if (!child || begun_.count(id) == 0) return;
    ++coverage_.forked;
    if (Below(2) == 0) Compact(*child);  // to the same name, maybe
  }

  void Truncate(SequenceId id) {
    Model& model = model_.at(id);
    const auto length = static_cast<int>(model.tokens.size());
    int cut = Below(4) == 0 ? 0 : Below(length + 1);
    const auto begun = begun_.find(id);
    if (begun != begun_.end() && Below(2) == 0) {
      const auto end = static_cast<int>(begun->second.order.end);
      cut = end + Below(length - end + 1);
    }
    Cut(id, cut);
    if (begun_.count(id) > 0) ++coverage_.cut_behind;
    if (model_.count(id) == 0 || cache_->Length(id) != cut) return;
    model.prompt = Join(model.tokens, RandomPrompt());
  }

  void PinOrDrop(SequenceId id) {
    now_ += Below(100);
    cache_->SetTime(now_);
    const Model& model = model_.at(id);
    if (model.kept.end > 0) {
      const auto tokens = std::span(model.tokens).first(static_cast<std::size_t>(model.kept.end));
      if (cache_
              ->PinSegment(settings_.formats[model.format], model.scope, tokens,
                           RecipeName(model.recipe, model.format), now_ + 200)
              .ok()) {
        ++coverage_.pins;
      }
    }
    if (Below(20) != 0) return;
    coverage_.dropped += static_cast<int>(begun_.size());
    Below(2) == 0 ? cache_->DropPrefixes() : cache_->DropPrefixes(model.scope);
    ASSERT_EQ(cache_->segment_totals().findable, 0U);
  }

  std::mt19937 random_{11};
  Coverage coverage_;

 private:
  // Of a compaction that was begun.
  struct Since {
    std::int64_t operation = 0;   // that did the last piece
    std::uint64_t evictions = 0;  // at the beginning
    std::int64_t length = 0;      // of the sequence at the beginning
  };

  std::map<SequenceId, Since> since_;
  std::int64_t operations_ = 0;
};

}  // namespace swiftkv
