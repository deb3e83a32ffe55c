// SPDX-License-Identifier: Apache-2.0
// Holds the words and sorts them by what the server's tokenizer makes of them.
#include "tools/bench_serve_lexicon.h"

#include <numeric>
#include <set>

namespace swiftkv {
namespace {

constexpr const char* kWords[] = {
    "time",   "people", "water",   "house",   "river", "stone", "light", "night", "paper", "green",
    "small",  "large",  "field",   "world",   "place", "point", "table", "music", "story", "horse",
    "child",  "hand",   "year",    "work",    "line",  "book",  "door",  "land",  "tree",  "fire",
    "road",   "wind",   "name",    "food",    "room",  "city",  "king",  "mind",  "part",  "side",
    "game",   "life",   "word",    "gold",    "ship",  "rain",  "snow",  "bird",  "fish",  "moon",
    "star",   "wall",   "bank",    "farm",    "hill",  "lake",  "wood",  "iron",  "salt",  "milk",
    "summer", "winter", "morning", "evening",
};

// Of fewer words or ids too many prompts would begin alike.
constexpr std::size_t kFewest = 16;
// Where the server does not tell: beyond the bytes and control tokens that begin vocabularies,
// within the smallest ones in use.
constexpr int kFirstId = 1000;
constexpr int kLastId = 29999;

// Whether so many words with spaces between are as many tokens.
bool HoldsInTexts(const std::vector<std::string>& words, const TokenizeText& tokenize) {
  std::string text;
  for (const std::string& word : words) text += text.empty() ? word : " " + word;
  const std::optional<std::vector<int>> tokens = tokenize(text);
  return tokens && tokens->size() == words.size();
}

}  // namespace

ServeLexicon MakeServeLexicon(const TokenizeText& tokenize) {
  ServeLexicon lexicon;
  std::vector<std::string> single;
  std::set<int> single_ids;
  std::set<int> ids;
  std::size_t tokens_in_all = 0;
  for (const std::string word : kWords) {
    lexicon.words.push_back(word);
    const std::optional<std::vector<int>> tokens = tokenize(word + " " + word);
    if (!tokens) break;
    tokens_in_all += tokens->size();
    ids.insert(tokens->begin(), tokens->end());
    if (tokens->size() != 2) continue;
    single.push_back(word);
    single_ids.insert(tokens->back());
  }
  const bool told = lexicon.words.size() == std::size(kWords);
  lexicon.words.assign(std::begin(kWords), std::end(kWords));
  if (told) {
    lexicon.tokens_per_word =
        static_cast<double>(tokens_in_all) / static_cast<double>(2 * lexicon.words.size());
  }
  if (told && single.size() >= kFewest && HoldsInTexts(single, tokenize)) {
    lexicon.words = single;
    lexicon.tokens_per_word = 1;
    lexicon.exact_words = true;
    ids = single_ids;
  }
  lexicon.told_ids = told && ids.size() >= kFewest;
  if (lexicon.told_ids) {
    lexicon.ids.assign(ids.begin(), ids.end());
  } else {
    lexicon.ids.resize(kLastId - kFirstId + 1);
    std::iota(lexicon.ids.begin(), lexicon.ids.end(), kFirstId);
  }
  return lexicon;
}

}  // namespace swiftkv
