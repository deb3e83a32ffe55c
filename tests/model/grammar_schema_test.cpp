// SPDX-License-Identifier: Apache-2.0
// Tests that schemas which would keep the converter busy or deep are refused, and others are not.
#include "model/grammar_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/json_grammar.h"

namespace swiftkv {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Repeated(int times, const std::string& open, const std::string& inner,
                     const std::string& close) {
  std::string text;
  for (int i = 0; i < times; ++i) text += open;
  text += inner;
  for (int i = 0; i < times; ++i) text += close;
  return text;
}

std::string ObjectOf(int properties) {
  std::string text = R"({"type": "object", "properties": {)";
  for (int i = 0; i < properties; ++i) {
    text += (i > 0 ? ", " : "") + ("\"p" + std::to_string(i)) + R"(": {"type": "string"})";
  }
  return text + "}}";
}

void ExpectRefused(const std::string& schema, const std::string& why) {
  const Result<std::string> grammar = GrammarFromJsonSchema(schema);
  ASSERT_FALSE(grammar.ok()) << schema.substr(0, 200);
  EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(grammar.status().message(), HasSubstr(why)) << schema.substr(0, 200);
}

TEST(GrammarSchemaTest, RefusesWhatIsTooDeepOrTooLarge) {
  ExpectRefused(Repeated(5000, R"({"items": )", "{}", "}"), "deep");
  ExpectRefused(Repeated(100000, "[", "", "]"), "deep");
  ExpectRefused(std::string(kMaxSchemaBytes + 1, ' '), "bytes");
  ExpectRefused(ObjectOf(kMaxSchemaProperties + 1), "properties");
  EXPECT_TRUE(GrammarFromJsonSchema(ObjectOf(kMaxSchemaProperties)).ok());
  EXPECT_TRUE(GrammarFromJsonSchema(
                  Repeated(20, R"({"type": "array", "items": )", R"({"type": "string"})", "}"))
                  .ok());
}

TEST(GrammarSchemaTest, RefusesListsOfTypesThatMultiply) {
  ExpectRefused(
      Repeated(40, R"({"type": ["array", "array"], "items": )", R"({"type": "string"})", "}"),
      "too large");
}

TEST(GrammarSchemaTest, RefusesReferencesInsideAllOfThatLeadBack) {
  ExpectRefused(
      R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
          "allOf": [{"$ref": "#/$defs/a"}]})",
      "deep");
  ExpectRefused(
      R"({"$defs": {"node": {"type": "object",
                             "properties": {"next": {"allOf": [{"$ref": "#/$defs/node"}]}}}},
          "allOf": [{"$ref": "#/$defs/node"}]})",
      "deep");
}

TEST(GrammarSchemaTest, RefusesReferencesInsideAllOfThatMultiply) {
  std::string schema = R"({"$defs": {"d0": {"type": "object", "properties": {}})";
  for (int i = 1; i < 20; ++i) {
    const std::string merged =
        R"({"allOf": [{"$ref": "#/$defs/d)" + std::to_string(i - 1) + "\"}]}";
    schema += ", \"d" + std::to_string(i) + R"(": {"type": "object", "properties": {"l": )" +
              merged + R"(, "r": )" + merged + "}}";
  }
  ExpectRefused(schema + R"(}, "allOf": [{"$ref": "#/$defs/d19"}]})", "a JSON schema ");
}

TEST(GrammarSchemaTest, CountsThePropertiesThatAllOfBringsTogether) {
  std::string schema = R"({"$defs": {"a": )" + ObjectOf(100) + R"(, "b": )" + ObjectOf(100);
  schema += R"(}, "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]})";
  ExpectRefused(schema, "properties");
}

TEST(GrammarSchemaTest, TakesRecursionThatTheConverterKnows) {
  const auto grammar = GrammarFromJsonSchema(
      R"({"$defs": {"tree": {"type": "object", "properties": {
            "left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}}}},
          "$ref": "#/$defs/tree"})");
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
}

TEST(GrammarSchemaTest, RefusesReferencesThatLeadNowhereOrOutside) {
  ExpectRefused(R"({"$ref": "https://example.com/schema.json"})", "$ref");
  ExpectRefused(R"({"$ref": "#/$defs/none"})", "$ref");
  ExpectRefused(R"({"$ref": ")" + std::string(100000, '/') + R"("})", "$ref");
}

TEST(GrammarSchemaTest, KeepsPatternsThatBecomeGrammarsAndDropsOthers) {
  const auto kept = [](const std::string& pattern) {
    const auto schema = SchemaForGrammar(R"({"type": "string", "pattern": ")" + pattern + "\"}");
    EXPECT_TRUE(schema.ok()) << schema.status().message();
    EXPECT_TRUE(GrammarFromJsonSchema(*schema).ok()) << pattern;
    return schema.ok() && schema->find("pattern") != std::string::npos;
  };
  for (const char* pattern :
       {"^[a-z]+$", "^(ab|c){2,3}$", "^[0-9]{4}-[0-9]{2}$", "^(?:x|y)*$", "^a\\\\.b$", "^.*$"}) {
    EXPECT_TRUE(kept(pattern)) << pattern;
  }
  for (const char* pattern : {"[a-z]+", "^\\\\d+$", "^(?=a)b$", "^a$|^b$", "^\\\\bword$", "^x{,3}$",
                              "^\\\\p{L}+$", "abc", "", "^[]a]$"}) {
    EXPECT_FALSE(kept(pattern)) << pattern;
  }
}

TEST(GrammarSchemaTest, APropertyMayBeNamedLikeAKeyword) {
  const auto schema = SchemaForGrammar(
      R"({"type": "object", "properties": {"pattern": {"type": "string"},
          "allOf": {"type": "integer"}, "$ref": {"type": "boolean"}},
          "default": {"pattern": "(["}})");
  ASSERT_TRUE(schema.ok()) << schema.status().message();
  EXPECT_THAT(*schema, HasSubstr("(["));
  EXPECT_TRUE(GrammarFromJsonSchema(*schema).ok());
}

TEST(GrammarSchemaTest, AnUntypedPatternStaysAString) {
  const auto grammar = GrammarFromJsonSchema(R"({"pattern": "unanchored"})");
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_THAT(*grammar, Not(HasSubstr("object")));
}

}  // namespace
}  // namespace swiftkv
