// SPDX-License-Identifier: Apache-2.0
// Tests that grammars are accepted and refused before the library sees them, as the library itself
// would judge.
#include "model/grammar_syntax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "llama.h"
#include "model/llama_guard.h"
#include "model/test_vocabularies.h"

namespace swiftkv {
namespace {

using ::testing::HasSubstr;

const Vocabulary& Tiny() {
  static const std::unique_ptr<Vocabulary> vocabulary =
      TinyVocabularyWith(TinyChatTokenizer(TinyVocabularyKind::kBpe));
  return *vocabulary;
}

// Left recursion aside, which is not a matter of syntax.
bool LibraryAccepts(const std::string& grammar) {
  const LlamaGuard guard;
  llama_sampler* sampler = llama_sampler_init_grammar(Tiny().handle(), grammar.c_str(), "root");
  if (sampler == nullptr) return guard.Reason("").find("left recursion") != std::string::npos;
  llama_sampler_free(sampler);
  return true;
}

const std::vector<std::string>& GoodGrammars() {
  static const std::vector<std::string> grammars = {
      "root ::= \"a\"",
      "root ::= [a-z]+ | [^\\n]* # comment\n",
      "# first\n\nroot ::= item (\",\" ws item)* \nitem ::= \"x\" | \"y\"\r\nws ::= [ \\t]?\n",
      "root ::= (\n  \"a\" |\n  \"b\"\n)\n",
      "root ::= \"a\"{3} \"b\"{2,} \"c\"{0,5} \"d\"{1,9000}",
      "root ::= \"\\x41\\u00e9\\U0001F600\\\"\\\\\\[\\]\\-\"",
      "root ::= [\\]\\-a-] . <[3]> !<[4]> <|im_end|>",
      "root ::=",
      "root ::= | \"a\"",
      "root ::= \"\xC3\xA9\"* [\xC3\xA0-\xC3\xB6]",
      "root ::= sub-1\nsub-1 ::= \"x\"",
      "root ::= \"a\" |\n\"b\"",
      "root ::= \"a\" \"b\"?*",
  };
  return grammars;
}

TEST(GrammarSyntaxTest, WhatTheLibraryAcceptsIsAccepted) {
  for (const std::string& grammar : GoodGrammars()) {
    const Status status = CheckGrammarSyntax(grammar, Tiny());
    EXPECT_TRUE(status.ok()) << grammar << ": " << status.message();
    EXPECT_TRUE(LibraryAccepts(grammar)) << grammar;
  }
}

TEST(GrammarSyntaxTest, FaultsAreNamedWithTheirLine) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"", "no rule is named 'root'"},
      {"rule ::= \"a\"", "no rule is named 'root'"},
      {"root ::= other", "no rule defines 'other'"},
      {"root = \"a\"", "'::=' must follow the name 'root' in line 1"},
      {"root ::= \"a\"\n::= \"b\"", "start with its name in line 2"},
      {"root ::= \"a", "'\"' is missing"},
      {"root ::= [a", "']' is missing"},
      {"root ::= (\"a\"", "')' is missing"},
      {"root ::= \"a\")", "unexpected ')' in line 1"},
      {"root ::= *", "an item must come before '*'"},
      {"root ::= \"\"*", "an item must come before '*'"},
      {"root ::= []+", "an item must come before '+'"},
      {"root ::= \"a\"{0}?", "an item must come before '?'"},
      {"root ::= {2}", "an item must come before '{'"},
      {"root ::= \"a\"{x}", "needs a number"},
      {"root ::= \"a\"{2", "'}' is missing"},
      {"root ::= \"a\"{5,2}", "must not end (2) before it begins (5)"},
      {"root ::= \"a\"{2001}", "may multiply to 2000"},
      {"root ::= (\"a\"{100} | \"b\" (\"c\" (\"d\"?)?)? ){1000}", "may multiply to 2000"},
      {"root ::= \"\\q\"", "an escape must be one of"},
      {"root ::= \"\\x4\"", "needs 2 hex digits"},
      {"root ::= <a", "'>' is missing"},
      {"root ::= <[x]>", "written <[123]>"},
      {"root ::= <[999999]>", "of the model"},
      {"root ::= <[]>", "of the model"},
      {"root ::= <[>", "of the model"},
      {"root ::= <nothing>", "no token of the model is named '<nothing>'"},
      {"root ::= !a", "'<' must follow '!'"},
  };
  for (const auto& [grammar, reason] : faults) {
    const Status status = CheckGrammarSyntax(grammar, Tiny());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << grammar;
    EXPECT_THAT(status.message(), HasSubstr(reason)) << grammar;
  }
}

TEST(GrammarSyntaxTest, NestingAndSizesThatWouldHarmTheLibraryAreRefused) {
  const std::string deep = "root ::= " + std::string(100000, '(') + std::string(100000, ')');
  EXPECT_THAT(CheckGrammarSyntax(deep, Tiny()).message(), HasSubstr("may nest 100 deep"));
  const std::string wide = "root ::= \"" + std::string(100000, 'a') + "\"{2000}";
  EXPECT_THAT(CheckGrammarSyntax(wide, Tiny()).message(), HasSubstr("multiply"));
  EXPECT_FALSE(CheckGrammarSyntax(std::string("root ::= \"a\"\0", 13), Tiny()).ok());
  EXPECT_FALSE(CheckGrammarSyntax("root ::= \"\xFF\"", Tiny()).ok());
}

TEST(GrammarSyntaxTest, DamagedGrammarsAreJudgedAsByTheLibrary) {
  std::mt19937 random(4);
  const std::string alphabet = "a\"[](){}|*+?.,:=<>!\\^-#\n 12";
  int accepted = 0;
  int refused = 0;
  std::vector<std::string> differing;
  for (int round = 0; round < 20000; ++round) {
    std::string grammar = GoodGrammars()[random() % GoodGrammars().size()];
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % (grammar.size() + 1);
      const char c = alphabet[random() % alphabet.size()];
      if (random() % 2 == 0) {
        grammar.insert(at, 1, c);
      } else if (at < grammar.size()) {
        grammar[at] = c;
      }
    }
    const bool ours = CheckGrammarSyntax(grammar, Tiny()).ok();
    // What only we refuse may harm the library, so it is not asked.
    if (!ours) {
      ++refused;
      continue;
    }
    ++accepted;
    if (!LibraryAccepts(grammar)) differing.push_back(grammar);
  }
  EXPECT_THAT(differing, ::testing::IsEmpty());
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace swiftkv
