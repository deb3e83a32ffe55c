// SPDX-License-Identifier: Apache-2.0
// Carries out a scenario's commands on a cache, and says in words what came of each.
//
// After every command all rows of all sequences are compared with the model's and the cache's bytes
// have to add up. tests/cache/scenarios/README.md lists the commands.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/modelled_segments.h"
#include "cache/scenario_arguments.h"
#include "cache/scenario_outcomes.h"

namespace swiftkv {

class ScenarioSession : public ModelledSegments {
 protected:
  using Arguments = ScenarioArguments;

  struct Command {
    std::string_view name;
    std::string_view needs;
    std::string_view may;
    std::string (ScenarioSession::*run)(const Arguments&);
  };

  static constexpr const char* kError = "error: ";

  static const std::vector<Command>& Commands() {
    using S = ScenarioSession;
    static const std::vector<Command> commands = {
        {"cache", "geometry number", "in headroom", &S::DoCache},
        {"open", "name level prompt", "in tenant salt unshared", &S::DoOpen},
        {"adopt", "sequence", "by", &S::DoAdopt},
        {"compute", "sequence", "to", &S::DoCompute},
        {"generate", "sequence number", "", &S::DoGenerate},
        {"reserve", "sequence number", "", &S::DoReserve},
        {"compress", "sequence", "by to newest private", &S::DoCompress},
        {"fork", "sequence name", "", &S::DoFork},
        {"cut", "sequence number", "", &S::DoCut},
        {"end", "sequence", "", &S::DoEnd},
        {"find", "level prompt", "by in tenant salt", &S::DoFind},
        {"pin", "prompt", "by in tenant salt until", &S::DoPin},
        {"unpin", "prompt", "in tenant salt", &S::DoUnpin},
        {"time", "number", "", &S::DoTime},
        {"forget", "", "tenant salt", &S::DoForget},
        {"evict", "number", "", &S::DoEvict},
        {"fill", "", "", &S::DoFill},
        {"drain", "", "", &S::DoDrain},
        {"show", "sequence", "", &S::DoShow},
        {"pool", "", "", &S::DoPool},
    };
    return commands;
  }

  // Sets what is found of every command; stops at the first that the model disagrees with.
  void Run(const std::string& file, std::vector<ScenarioLine>* lines) {
    for (ScenarioLine& line : *lines) {
      if (line.command.empty()) continue;
      const testing::ScopedTrace trace(file.c_str(), line.number, line.command);
      line.found = Do(line.command);
      CheckAll();
      if (HasFailure()) return;
    }
  }

  std::string Do(const std::string& text) {
    const std::vector<std::string> words = WordsOf(text);
    for (const Command& command : Commands()) {
      if (command.name != words[0]) continue;
      Arguments arguments;
      std::string wrong = ScenarioReader(command.needs, command.may).Read(words, &arguments);
      if (wrong.empty()) wrong = CheckNames(words[0], arguments);
      return wrong.empty() ? (this->*command.run)(arguments) : kError + wrong;
    }
    return kError + ("no command: " + words[0]);
  }

 private:
  std::string CheckNames(const std::string& command, const Arguments& arguments) const {
    if (cache_ == nullptr && command != "cache")
      return "the first command is not cache, but: " + command;
    if (!arguments.name.empty() && ids_.count(arguments.name) == 0) {
      return "no sequence is called: " + arguments.name;
    }
    if (ids_.count(arguments.new_name) > 0) return "there already is a: " + arguments.new_name;
    return "";
  }

  void CheckAll() {
    if (cache_ == nullptr) return;
    cache_->CheckInvariants();
    for (const auto& [id, model] : model_) CheckSequence(id);
  }

  static KvFormat FormatOf(const std::string& name) { return {name, name}; }

  // Numbers a format; rows of few bits are compared by what they may lose.
  std::size_t FormatNumber(const std::string& name) {
    if (name.empty()) return 0;
    for (std::size_t i = 0; i < settings_.formats.size(); ++i) {
      if (settings_.formats[i].key == name) return i;
    }
    settings_.formats.push_back(FormatOf(name));
    return settings_.formats.size() - 1;
  }

  void Tolerate(std::string_view format) {
    if (format == "int8") settings_.tolerance = std::max(settings_.tolerance, 0.03);
    if (format == "int4") settings_.tolerance = std::max(settings_.tolerance, 0.8);
  }

  std::string DoCache(const Arguments& arguments) {
    model_.clear();
    ids_.clear();
    segments_.clear();
    const std::string format = arguments.format.empty() ? "f16" : arguments.format;
    settings_ = {{FormatOf(format)}, 0};
    Tolerate(format);
    now_ = 0;
    num_segments_ = 0;
    KvCacheOptions options;
    options.layers = arguments.geometry.layers;
    options.key_format = options.value_format = format;
    options.memory_bytes = static_cast<std::uint64_t>(arguments.number) << 10;
    options.keeps_headroom = arguments.has_headroom;
    options.huge_pages = false;
    options.poison_free_frames = true;
    options.model_fingerprint = "scenario";
    auto cache = KvCache::Create(options);
    if (!cache.ok()) return kError + cache.status().message();
    cache_ = std::move(cache).value();
    filler_ = cache_->CreateSequence().value();
    return "";
  }

  std::string DoOpen(const Arguments& arguments) {
    Model model;
    model.format = FormatNumber(arguments.format);
    Tolerate(arguments.format);
    model.scope = arguments.scope;
    model.scope.allowed = arguments.level;
    for (const char letter : arguments.scope.tenant_salt + "/" + arguments.scope.request_salt) {
      model.origin = Mix(model.origin, static_cast<unsigned char>(letter));
    }
    model.past = model.origin;
    model.prompt = arguments.prompt;
    const auto id = Open(model);
    if (!id) return "no room";
    ids_[arguments.new_name] = *id;
    return "";
  }

  std::string DoAdopt(const Arguments& arguments) {
    const SequenceId id = ids_.at(arguments.name);
    hit_ = {};
    if (arguments.recipe != nullptr) AdoptSegment(id, arguments.recipe->number);
    AdoptPrefix(id);
    const std::int64_t end = cache_->SegmentEnd(id);
    const std::int64_t length = cache_->Length(id);
    std::string text = "nothing";
    if (end == 0 && length > 0) text = "dense to " + std::to_string(length);
    if (end > 0) text = SegmentText(id) + " to " + std::to_string(end);
    if (end > 0 && length > end) text += " and what is on top to " + std::to_string(length);
    return text + HitText(hit_);
  }

  std::string DoCompute(const Arguments& arguments) {
    const SequenceId id = ids_.at(arguments.name);
    const Tokens& prompt = model_.at(id).prompt;
    const std::int64_t length = cache_->Length(id);
    const std::int64_t end = arguments.to.value_or(static_cast<std::int64_t>(prompt.size()));
    if (end <= length || end > static_cast<std::int64_t>(prompt.size())) {
      return kError + ("the prompt has no tokens to come up to: " + std::to_string(end));
    }
    return ComputeText(id, Tokens(prompt.begin() + length, prompt.begin() + end));
  }

  // Tokens that no prompt has.
  std::string DoGenerate(const Arguments& arguments) {
    const SequenceId id = ids_.at(arguments.name);
    const Tokens tokens = Prompt(++num_generated_, static_cast<std::size_t>(arguments.number));
    model_.at(id).prompt = Join(model_.at(id).tokens, tokens);
    return ComputeText(id, tokens);
  }

  std::string ComputeText(SequenceId id, const Tokens& tokens) {
    if (!cache_->Reserve(id, static_cast<int>(tokens.size())).ok()) return "no room";
    Append(id, tokens);
    return "to " + std::to_string(cache_->Length(id));
  }

  std::string DoReserve(const Arguments& arguments) {
    const Status status =
        cache_->Reserve(ids_.at(arguments.name), static_cast<int>(arguments.number));
    return status.ok() ? "room for " + std::to_string(arguments.number) : "no room";
  }

  std::string DoCompress(const Arguments& arguments) {
    const SequenceId id = ids_.at(arguments.name);
    const Model& model = model_.at(id);
    const ScenarioRecipe recipe =
        arguments.recipe == nullptr ? kScenarioRecipes[4] : *arguments.recipe;
    const std::int64_t end = arguments.to.value_or(cache_->Length(id) / kPageTokens * kPageTokens);
    KvFormat format = settings_.formats[model.format];
    if (!recipe.format.empty()) format = FormatOf(std::string(recipe.format));
    Tolerate(recipe.format);
    CompactionOrder order = OrderOf(*cache_, id, end, {format}, kRecipes[recipe.number]);
    order.recipe = RecipeName(recipe.number, model.format);
    order.shareable = !arguments.is_private && !arguments.newest;
    if (arguments.newest) KeepNewest(static_cast<std::size_t>(*arguments.newest), &order);
    CompactAs(id, order, recipe.number);
    if (!compaction_.ok()) return StatusCodeName(compaction_.status().code());
    if (!compaction_->was_there) segments_[FirstPage(id)] = ++num_segments_;
    return SegmentText(id) + " to " + std::to_string(compaction_->end) +
           CompactionText(*compaction_);
  }

  // Tells segments apart.
  const std::byte* FirstPage(SequenceId id) const {
    std::vector<PageRun> runs;
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      cache_->AppendRuns(id, layer, 0, &runs);
    }
    for (const PageRun& run : runs) {
      if (run.positions != nullptr) return run.Page(0, run.first_head);
    }
    return nullptr;
  }

  std::string SegmentText(SequenceId id) const {
    const std::byte* const page = FirstPage(id);
    const auto known = segments_.find(page);
    if (known == segments_.end()) return "an unknown segment";
    const auto users = std::count_if(model_.begin(), model_.end(), [&](const auto& other) {
      return FirstPage(other.first) == page;
    });
    std::string text = "S" + std::to_string(known->second);
    if (users > 1) text += " of " + std::to_string(users) + " users";
    return text;
  }

  std::string DoFork(const Arguments& arguments) {
    const auto child = Fork(ids_.at(arguments.name));
    if (!child) return "no room";
    ids_[arguments.new_name] = *child;
    return "";
  }

  std::string DoCut(const Arguments& arguments) {
    const SequenceId id = ids_.at(arguments.name);
    if (arguments.number > 0 && arguments.number == cache_->SegmentEnd(id)) {
      return kError + ("the model knows no cut to a segment's end: " + arguments.name);
    }
    Cut(id, static_cast<int>(arguments.number));
    return cache_->Length(id) == arguments.number ? "to " + std::to_string(arguments.number)
                                                  : "unsupported";
  }

  std::string DoEnd(const Arguments& arguments) {
    const KvBalance before = cache_->Balance();
    Release(ids_.at(arguments.name));
    ids_.erase(arguments.name);
    return ReleaseText(before, cache_->Balance());
  }

  std::string DoFind(const Arguments& arguments) {
    PrefixScope scope = arguments.scope;
    scope.allowed = arguments.level;
    const std::size_t number = FormatNumber(arguments.format);
    const KvFormat& format = settings_.formats[number];
    if (arguments.recipe != nullptr) {
      const std::int64_t end = cache_->FindSegment(format, scope, arguments.prompt,
                                                   RecipeName(arguments.recipe->number, number));
      return end == 0 ? "no segment" : "a segment to " + std::to_string(end);
    }
    const PrefixHit hit = cache_->FindPrefix(format, scope, arguments.prompt);
    return (hit.tokens == 0 ? "nothing" : "dense to " + std::to_string(hit.tokens)) + HitText(hit);
  }

  std::string DoPin(const Arguments& arguments) {
    PrefixScope scope = arguments.scope;
    scope.allowed = Quality::kAny;
    const std::size_t number = FormatNumber(arguments.format);
    const KvFormat& format = settings_.formats[number];
    const Status status =
        arguments.recipe == nullptr
            ? cache_->PinPrefix(format, scope, arguments.prompt, arguments.until)
            : cache_->PinSegment(format, scope, arguments.prompt,
                                 RecipeName(arguments.recipe->number, number), arguments.until);
    return status.ok() ? "pinned" : StatusCodeName(status.code());
  }

  std::string DoUnpin(const Arguments& arguments) {
    const KvFormat& format = settings_.formats[FormatNumber(arguments.format)];
    const Status status = cache_->UnpinPrefix(format, arguments.scope, arguments.prompt);
    return status.ok() ? "unpinned" : StatusCodeName(status.code());
  }

  std::string DoTime(const Arguments& arguments) {
    now_ = arguments.number;
    cache_->SetTime(now_);
    return "";
  }

  std::string DoForget(const Arguments& arguments) {
    const DroppedPrefixes dropped = cache_->DropPrefixes(arguments.scope);
    return ListText({CountText(dropped.blocks, "block"), BytesText("frees", dropped.freed_bytes)},
                    "knows nothing");
  }

  // Asks for memory block by block until that much less is cached, and gives it back.
  std::string DoEvict(const Arguments& arguments) {
    const Evictions before = EvictionsOf(*cache_);
    const std::uint64_t wanted = static_cast<std::uint64_t>(arguments.number) << 10;
    int tokens = kPageTokens;
    while (EvictionsOf(*cache_).cached_bytes + wanted > before.cached_bytes &&
           cache_->Reserve(filler_, tokens).ok()) {
      tokens += kPageTokens;
    }
    const std::string text = EvictionText(before, EvictionsOf(*cache_));
    return cache_->Truncate(filler_, 0).ok() ? text : kError + text;
  }

  // Has the rest of the memory reserved by one that shares nothing, until it is told to go.
  std::string DoFill(const Arguments& /*arguments*/) {
    const Evictions before = EvictionsOf(*cache_);
    for (int tokens = kPageTokens; cache_->Reserve(filler_, tokens).ok();) tokens += kPageTokens;
    return EvictionText(before, EvictionsOf(*cache_));
  }

  std::string DoDrain(const Arguments& /*arguments*/) {
    return cache_->Truncate(filler_, 0).ok() ? "" : kError + std::string("held");
  }

  // Rows of each head, by layer.
  std::string DoShow(const Arguments& arguments) {
    const SequenceId id = ids_.at(arguments.name);
    std::string text = std::to_string(cache_->Length(id)) + " tokens, ";
    if (cache_->SegmentEnd(id) > 0) text += "on " + SegmentText(id) + ", ";
    text += InKib(cache_->HeldBytes(id)) + ", rows";
    for (int layer = 0; layer < cache_->num_layers(); ++layer) {
      if (layer > 0) text += " |";
      for (int head = 0; head < cache_->layer(layer).kv_heads; ++head) {
        text += " " + std::to_string(RowsSeen(*cache_, id, layer, head).size());
      }
    }
    return text;
  }

  // Where the bytes are, but for those that fill the memory.
  std::string DoPool(const Arguments& /*arguments*/) {
    return PoolText(*cache_, cache_->HeldBytes(filler_));
  }

  std::map<std::string, SequenceId> ids_;
  std::map<const std::byte*, int> segments_;  // first page -> number; of some that are gone, too
  SequenceId filler_{};
  int num_segments_ = 0;
  std::uint32_t num_generated_ = 0;
};

}  // namespace swiftkv
