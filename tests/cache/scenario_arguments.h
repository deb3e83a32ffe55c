// SPDX-License-Identifier: Apache-2.0
// Reads the words behind a scenario's command: what it must have, then what it may have.
#pragma once

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/modelled_segments.h"
#include "cache/scenario_text.h"

namespace swiftkv {

// A way to choose what heads keep.
struct ScenarioRecipe {
  std::string_view name;
  int number = 0;           // in kRecipes
  std::string_view format;  // of kept pages; empty for the sequence's own
};

inline constexpr ScenarioRecipe kScenarioRecipes[] = {
    {"half", 0, ""}, {"ragged", 1, ""},        {"one_head_none", 2, ""}, {"quarter", 3, ""},
    {"all", 4, ""},  {"half_int8", 5, "int8"}, {"all_int8", 6, "int8"},
};

struct ScenarioArguments {
  std::string name;      // of a sequence
  std::string new_name;  // of one that is to be
  Quality level = Quality::kExact;
  Tokens prompt;
  TestGeometry geometry;
  std::int64_t number = 0;
  const ScenarioRecipe* recipe = nullptr;  // by
  std::optional<std::int64_t> to;          // tokens
  std::optional<std::int64_t> newest;      // tokens that each head keeps
  std::int64_t until = 0;                  // milliseconds
  std::string format;                      // in; empty for the cache's own
  PrefixScope scope;
  bool is_private = false;
  bool has_headroom = false;
};

// Returns the number that a word is, if it is one.
inline std::optional<std::int64_t> NumberIn(std::string_view word) {
  std::int64_t number = 0;
  const auto end = word.data() + word.size();
  const auto read = std::from_chars(word.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < 0) return std::nullopt;
  return number;
}

// Returns the tokens of a prompt that is written as its parts: "P:64+Q:20" begins with the first 64
// tokens of the endless text P and goes on with the first 20 of Q.
inline std::optional<Tokens> PromptIn(const std::string& word) {
  Tokens tokens;
  std::istringstream parts(word);
  for (std::string part; std::getline(parts, part, '+');) {
    const std::size_t colon = part.find(':');
    if (colon == 0 || colon == std::string::npos) return std::nullopt;
    const auto count = NumberIn(std::string_view(part).substr(colon + 1));
    if (!count) return std::nullopt;
    std::uint32_t seed = 0;
    for (const char letter : part.substr(0, colon)) {
      seed = seed * 31U + static_cast<unsigned char>(letter);
    }
    tokens = Join(tokens, Prompt(seed, static_cast<std::size_t>(*count)));
  }
  return tokens;
}

class ScenarioReader {
 public:
  // `needs` and `may` list kinds of arguments and options, with blanks between.
  ScenarioReader(std::string_view needs, std::string_view may)
      : needs_(WordsOf(std::string(needs))), may_(WordsOf(std::string(may))) {}

  // Returns what is wrong with the words behind a command; nothing where they were read.
  std::string Read(const std::vector<std::string>& words, ScenarioArguments* arguments) const {
    std::size_t at = 1;
    for (const std::string& kind : needs_) {
      if (at == words.size() || !ReadKind(kind, words[at], arguments)) {
        return "a " + kind + " is missing: " + JoinWords(words);
      }
      ++at;
    }
    while (at < words.size()) {
      const std::string& option = words[at++];
      if (std::find(may_.begin(), may_.end(), option) == may_.end()) {
        return "not understood: " + option;
      }
      if (ReadFlag(option, arguments)) continue;
      if (at == words.size() || !ReadOption(option, words[at++], arguments)) {
        return "what does not fit follows: " + option;
      }
    }
    return "";
  }

 private:
  static bool ReadKind(const std::string& kind, const std::string& word,
                       ScenarioArguments* arguments) {
    if (kind == "sequence") return !(arguments->name = word).empty();
    if (kind == "name") return !(arguments->new_name = word).empty();
    if (kind == "level") return ReadLevel(word, &arguments->level);
    if (kind == "number") return ReadNumber(word, &arguments->number);
    if (kind == "geometry") return ReadGeometry(word, &arguments->geometry);
    const auto prompt = PromptIn(word);
    if (prompt) arguments->prompt = *prompt;
    return prompt.has_value();
  }

  static bool ReadFlag(const std::string& option, ScenarioArguments* arguments) {
    if (option == "private") return arguments->is_private = true;
    if (option == "unshared") return !(arguments->scope.share = false);
    return option == "headroom" && (arguments->has_headroom = true);
  }

  static bool ReadOption(const std::string& option, const std::string& word,
                         ScenarioArguments* arguments) {
    if (option == "by") return ReadRecipe(word, &arguments->recipe);
    if (option == "to") return (arguments->to = NumberIn(word)).has_value();
    if (option == "newest") return (arguments->newest = NumberIn(word)).has_value();
    if (option == "until") return ReadNumber(word, &arguments->until);
    if (option == "in") return !(arguments->format = word).empty();
    std::string* const salt =
        option == "tenant" ? &arguments->scope.tenant_salt : &arguments->scope.request_salt;
    return !(*salt = word).empty();
  }

  static bool ReadNumber(const std::string& word, std::int64_t* number) {
    const auto read = NumberIn(word);
    if (read) *number = *read;
    return read.has_value();
  }

  static bool ReadLevel(const std::string& word, Quality* level) {
    for (const Quality known : {Quality::kExact, Quality::kNear, Quality::kAny}) {
      if (word != QualityName(known)) continue;
      *level = known;
      return true;
    }
    return false;
  }

  static bool ReadRecipe(const std::string& word, const ScenarioRecipe** recipe) {
    for (const ScenarioRecipe& known : kScenarioRecipes) {
      if (known.name == word) *recipe = &known;
    }
    return *recipe != nullptr;
  }

  static bool ReadGeometry(const std::string& word, TestGeometry* geometry) {
    for (const TestGeometry& known :
         {OneSmallHead(), TwoByTwo(), ThreeHeads(), ShortWindow(), EqualFrames(), SixLayers()}) {
      if (known.name == word) *geometry = known;
    }
    return !geometry->layers.empty();
  }

  std::vector<std::string> needs_;
  std::vector<std::string> may_;
};

}  // namespace swiftkv
