// SPDX-License-Identifier: Apache-2.0
// Cuts a text into documents and plants facts in it.
#include "engine/recall_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "engine/planted_facts.h"

namespace swiftkv {
namespace {

// The copy has begun by then: what comes before is as hard for a whole cache.
constexpr int kCopyStart = 8;

// Number of the first document with facts. Any would do; docs/policies.md has figures of this one.
constexpr std::uint64_t kFirstNeedle = 4;

using Tokens = std::vector<TokenId>;

Status CheckSettings(std::span<const TokenId> text, const RecallSettings& settings) {
  if (settings.context < kLeastRecallContext) {
    return Status::InvalidArgument(
        fmt::format("forgetting is measured on contexts of at least {} tokens, not: {}",
                    kLeastRecallContext, settings.context));
  }
  if (text.size() < static_cast<std::size_t>(settings.context) / 2) {
    return Status::InvalidArgument(fmt::format(
        "forgetting over {} tokens is measured on a text of at least {} tokens, not: {}",
        settings.context, settings.context / 2, text.size()));
  }
  for (const int length : settings.lengths) {
    if (length >= kLeastRecallContext && length <= settings.context) continue;
    return Status::InvalidArgument(
        fmt::format("a needle's document has from {} tokens to those of the context, {}, not: {}",
                    kLeastRecallContext, settings.context, length));
  }
  for (const double depth : settings.depths) {
    if (depth >= 0 && depth <= 1) continue;
    return Status::InvalidArgument(
        fmt::format("a depth is from 0 (first) to 1 (last), not: {}", depth));
  }
  if (settings.keys < 1 || settings.keys > kMostFacts) {
    return Status::InvalidArgument(
        fmt::format("a document has from 1 to {} facts, not: {}", kMostFacts, settings.keys));
  }
  return Status::Ok();
}

class DocumentMaker {
 public:
  DocumentMaker(std::span<const TokenId> text, const RecallSettings& settings,
                const Tokenizer& tokenizer)
      : text_(text), settings_(settings), tokenizer_(tokenizer) {}

  Result<std::vector<RecallDocument>> Make() {
    AddTexts();
    AddCopies();
    std::vector<int> lengths = settings_.lengths;
    if (lengths.empty())
      lengths = {settings_.context / 4, settings_.context / 2, settings_.context};
    for (int& length : lengths) length = std::max(length, kLeastRecallContext);
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    for (int i = 0; i < settings_.needle_documents; ++i) {
      for (const int length : lengths) {
        for (const double depth : settings_.depths) {
          SKV_RETURN_IF_ERROR(AddNeedle({length, depth, false, i}));
          SKV_RETURN_IF_ERROR(AddNeedle({length, depth, true, i}));
        }
        SKV_RETURN_IF_ERROR(AddManyNeedles(length, i));
      }
    }
    return std::move(documents_);
  }

 private:
  struct Needle {
    int length;
    double depth;
    bool question_inside;
    int repetition;
  };

  Tokens WithBos() const { return settings_.bos == kNoToken ? Tokens{} : Tokens{settings_.bos}; }

  void AddTexts() {
    const int scored = std::min(settings_.scored_tokens, settings_.context / 2);
    for (int window = 0; window < settings_.text_windows; ++window) {
      Tokens prefix = WithBos();
      const std::size_t own = static_cast<std::size_t>(settings_.context) - prefix.size();
      const std::size_t begin = static_cast<std::size_t>(window) * own;
      if (text_.size() < begin + own) return;
      const auto split = text_.begin() + static_cast<std::ptrdiff_t>(
                                             begin + own - static_cast<std::size_t>(scored));
      prefix.insert(prefix.end(), text_.begin() + static_cast<std::ptrdiff_t>(begin), split);
      RecallDocument document;
      document.kind = TaskKind::kText;
      document.name = fmt::format("text/{}", window);
      document.number = static_cast<std::uint64_t>(window);
      document.length = settings_.context;
      document.prefix = std::move(prefix);
      document.continuations.push_back({Tokens(split, split + scored), 1});
      documents_.push_back(std::move(document));
    }
  }

  void AddCopies() {
    const auto length = static_cast<std::size_t>(settings_.context) / 2;
    for (int window = 0; window < settings_.text_windows; ++window) {
      Tokens prefix = WithBos();
      const std::size_t own = length - prefix.size();
      const std::size_t begin = static_cast<std::size_t>(window) * own;
      if (text_.size() < begin + own) return;
      const auto part = text_.subspan(begin, own);
      prefix.insert(prefix.end(), part.begin(), part.end());
      RecallDocument document;
      document.kind = TaskKind::kCopy;
      document.name = fmt::format("copy/{}", window);
      document.number = static_cast<std::uint64_t>(window);
      document.length = static_cast<int>(length);
      document.prefix = std::move(prefix);
      document.continuations.push_back({Tokens(part.begin(), part.end()), kCopyStart});
      documents_.push_back(std::move(document));
    }
  }

  // The next `count` tokens of the text, from the start again where it ends: what stands around the
  // facts differs from document to document.
  Tokens NextFiller(std::size_t count) {
    Tokens filler;
    for (std::size_t i = 0; i < count; ++i) {
      filler.push_back(text_[filler_at_]);
      filler_at_ = (filler_at_ + 1) % text_.size();
    }
    return filler;
  }

  // Question and answer as one stretch of tokens; what they share with the question alone is not
  // scored.
  Result<Continuation> Ask(const PlantedFact& fact) const {
    SKV_ASSIGN_OR_RETURN(const Tokens question, tokenizer_(fact.question));
    SKV_ASSIGN_OR_RETURN(Tokens both, tokenizer_(fact.question + fact.answer));
    const auto differ = std::mismatch(question.begin(), question.end(), both.begin(), both.end());
    const auto shared = static_cast<int>(differ.second - both.begin());
    if (shared < 2 || shared >= static_cast<int>(both.size())) {
      return Status::InvalidArgument(
          fmt::format("no question can be asked with a tokenizer that gives {} tokens for: {}",
                      both.size(), fact.question));
    }
    return Continuation{std::move(both), shared};
  }

  // A prefix of `length` tokens with each fact at its depth; `room` tokens are left to the caller.
  Result<Tokens> Plant(std::span<const PlantedFact> facts, std::span<const double> depths,
                       int length, std::size_t room) {
    std::vector<Tokens> sentences;
    std::size_t taken = room + WithBos().size();
    for (const PlantedFact& fact : facts) {
      SKV_ASSIGN_OR_RETURN(sentences.emplace_back(), tokenizer_(fact.sentence));
      taken += sentences.back().size();
    }
    if (taken >= static_cast<std::size_t>(length)) {
      return Status::InvalidArgument(
          fmt::format("{} planted facts take {} tokens, more than a document's: {}", facts.size(),
                      taken, length));
    }
    const Tokens filler = NextFiller(static_cast<std::size_t>(length) - taken);
    Tokens prefix = WithBos();
    std::size_t at = 0;
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const auto end =
          static_cast<std::size_t>(std::llround(depths[i] * static_cast<double>(filler.size())));
      prefix.insert(prefix.end(), filler.begin() + static_cast<std::ptrdiff_t>(at),
                    filler.begin() + static_cast<std::ptrdiff_t>(end));
      prefix.insert(prefix.end(), sentences[i].begin(), sentences[i].end());
      at = end;
    }
    prefix.insert(prefix.end(), filler.begin() + static_cast<std::ptrdiff_t>(at), filler.end());
    return prefix;
  }

  std::uint64_t SeedOfFacts(std::uint64_t number) const {
    return settings_.seed * 1000003 + number;
  }

  Status AddNeedle(const Needle& needle) {
    const std::uint64_t number = next_needle_++;
    const std::vector<PlantedFact> facts = MakePlantedFacts(1, SeedOfFacts(number));
    RecallDocument document;
    document.number = number;
    document.kind = TaskKind::kNeedle;
    document.name = fmt::format("needle/{}/{}/{}/{}", needle.length, needle.depth,
                                needle.question_inside ? "question inside" : "question after",
                                needle.repetition);
    document.length = needle.length;
    document.depth = needle.depth;
    document.question_inside = needle.question_inside;
    SKV_ASSIGN_OR_RETURN(Continuation asked, Ask(facts.front()));
    // The last token of the question predicts the answer, so it is computed after compressing.
    const auto inside =
        needle.question_inside ? static_cast<std::size_t>(asked.first_scored) - 1 : 0;
    SKV_ASSIGN_OR_RETURN(document.prefix, Plant(facts, std::span(&needle.depth, 1), needle.length,
                                                asked.tokens.size()));
    const auto begin = asked.tokens.begin();
    document.prefix.insert(document.prefix.end(), begin,
                           begin + static_cast<std::ptrdiff_t>(inside));
    asked.tokens.erase(begin, begin + static_cast<std::ptrdiff_t>(inside));
    asked.first_scored -= static_cast<int>(inside);
    document.continuations.push_back(std::move(asked));
    documents_.push_back(std::move(document));
    return Status::Ok();
  }

  Status AddManyNeedles(int length, int repetition) {
    const std::uint64_t number = next_needle_++;
    const std::vector<PlantedFact> facts = MakePlantedFacts(settings_.keys, SeedOfFacts(number));
    RecallDocument document;
    document.kind = TaskKind::kMultiNeedle;
    document.number = number;
    document.name = fmt::format("multi_needle/{}/{}", length, repetition);
    document.length = length;
    std::vector<double> depths;
    std::size_t room = 0;
    for (std::size_t i = 0; i < facts.size(); ++i) {
      depths.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(facts.size()));
      SKV_ASSIGN_OR_RETURN(document.continuations.emplace_back(), Ask(facts[i]));
      room = std::max(room, document.continuations.back().tokens.size());
    }
    SKV_ASSIGN_OR_RETURN(document.prefix, Plant(facts, depths, length, room));
    documents_.push_back(std::move(document));
    return Status::Ok();
  }

  std::span<const TokenId> text_;
  const RecallSettings& settings_;
  const Tokenizer& tokenizer_;
  std::size_t filler_at_ = 0;  // in text_
  std::uint64_t next_needle_ = kFirstNeedle;
  std::vector<RecallDocument> documents_;
};

}  // namespace

const char* TaskKindName(TaskKind kind) {
  switch (kind) {
    case TaskKind::kText:
      return "text";
    case TaskKind::kCopy:
      return "copy";
    case TaskKind::kNeedle:
      return "needle";
    case TaskKind::kMultiNeedle:
      return "multi_needle";
  }
  return "unknown";
}

Result<std::vector<RecallDocument>> MakeRecallDocuments(std::span<const TokenId> text,
                                                        const RecallSettings& settings,
                                                        const Tokenizer& tokenizer) {
  SKV_RETURN_IF_ERROR(CheckSettings(text, settings));
  return DocumentMaker(text, settings, tokenizer).Make();
}

}  // namespace swiftkv
