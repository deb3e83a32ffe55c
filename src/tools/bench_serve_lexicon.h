// SPDX-License-Identifier: Apache-2.0
// Finds words and token ids of which prompts of a known length are made, whatever the server.
//
// The server's own /tokenize says which of a few dozen English words are one token each: so many of
// them, with spaces between, are a text of so many tokens, and their ids are in the vocabulary and
// no control tokens. A server without that route gets texts of about the length, and ids of a range
// that every usual vocabulary has.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace swiftkv {

struct ServeLexicon {
  std::vector<std::string> words;  // never empty
  std::vector<int> ids;            // never empty
  double tokens_per_word = 1;
  bool exact_words = false;  // a text of n words has n tokens
  bool told_ids = false;     // the server named the ids
};

// Returns the tokens of a text without what a tokenizer puts before it, or nothing where the server
// does not tell.
using TokenizeText = std::function<std::optional<std::vector<int>>(const std::string& text)>;

// Asks for each word twice in a row, which tells those that are one token with a space before them.
ServeLexicon MakeServeLexicon(const TokenizeText& tokenize);

}  // namespace swiftkv
