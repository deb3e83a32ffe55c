// SPDX-License-Identifier: Apache-2.0
// Tests that two grammars joined allow the texts of either and no mixture.
#include "model/grammar_union.h"

#include <gtest/gtest.h>

#include "model/grammar_syntax.h"
#include "model/json_grammar.h"
#include "model/test_vocabularies.h"

namespace swiftkv {
namespace {

TEST(GrammarUnionTest, NamesOfBothStayApartAndNothingElseChanges) {
  EXPECT_EQ(
      EitherGrammar("root ::= a-1 \"a \\\" a\" [a\\]b] a-1{2,3} # a\na-1 ::= (\"x\" | \"y\")+",
                    "root ::= \"a\""),
      "root ::= first-root | second-root\n"
      "first-root ::= first-a-1 \"a \\\" a\" [a\\]b] first-a-1{2,3} # a\n"
      "first-a-1 ::= (\"x\" | \"y\")+\n"
      "second-root ::= \"a\"\n");
}

TEST(GrammarUnionTest, GrammarsOfSchemasWithEqualNamesAreJoined) {
  const auto vocabulary = TinyVocabularyWith(TinyChatTokenizer(TinyVocabularyKind::kBpe));
  const std::string one =
      GrammarFromJsonSchema(
          R"({"type": "object", "properties": {"a\"[{#": {"type": "string", "maxLength": 7}}})")
          .value();
  const std::string two =
      GrammarFromJsonSchema(R"({"type": "array", "items": {"type": "number"}, "maxItems": 9})")
          .value();
  const Status checked = CheckGrammarSyntax(EitherGrammar(one, two), *vocabulary);
  EXPECT_TRUE(checked.ok()) << checked.message();
}

TEST(GrammarUnionTest, WhatIsCutShortIsTakenToItsEnd) {
  for (const char* cut : {"root ::= \"a", "root ::= [a\\", "root ::= a{", "root ::= <a", "# a"}) {
    EXPECT_NE(EitherGrammar(cut, "root ::= \"b\"").find("second-root ::= \"b\""),
              std::string::npos);
  }
}

}  // namespace
}  // namespace swiftkv
