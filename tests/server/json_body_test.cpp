// SPDX-License-Identifier: Apache-2.0
// Tests which bodies are taken for JSON, and that none ends the process.
#include "server/json_body.h"

#include <gtest/gtest.h>

namespace swiftkv {
namespace {

std::string Nested(int depth) {
  const auto brackets = static_cast<std::size_t>(depth - 1);
  return "{\"a\":" + std::string(brackets, '[') + std::string(brackets, ']') + "}";
}

TEST(JsonBodyTest, TakesAnObjectAsDeepAsAllowed) {
  EXPECT_TRUE(ParseJsonBody(Nested(kMaxJsonDepth)).ok());
  EXPECT_FALSE(ParseJsonBody(Nested(kMaxJsonDepth + 1)).ok());
}

TEST(JsonBodyTest, CountsNoBracketsInsideStrings) {
  EXPECT_TRUE(ParseJsonBody("{\"a\":\"" + std::string(1000, '[') + "\\\"{\"}").ok());
}

TEST(JsonBodyTest, TakesAsManyMembersAndElementsAsAllowed) {
  const auto object = [](std::size_t members) {
    std::string body = "{";
    for (std::size_t i = 0; i < members; ++i) {
      body += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    }
    return body + "}";
  };
  EXPECT_TRUE(ParseJsonBody(object(kMaxJsonMembers)).ok());
  EXPECT_FALSE(ParseJsonBody(object(kMaxJsonMembers + 1)).ok());
  // Members of inner objects count for themselves, also once those are closed.
  EXPECT_FALSE(ParseJsonBody("{\"a\":{}," + object(kMaxJsonMembers).substr(1)).ok());
  const auto list = [](std::size_t elements) {
    std::string body = "{\"a\":[0";
    for (std::size_t i = 1; i < elements; ++i) body += ",0";
    return body + "]}";
  };
  EXPECT_TRUE(ParseJsonBody(list(kMaxJsonElements - 1)).ok());
  EXPECT_FALSE(ParseJsonBody(list(kMaxJsonElements)).ok());
}

TEST(JsonBodyTest, RefusesWhatIsNoObjectInUtf8) {
  const std::vector<std::string> bodies = {
      "",
      " ",
      "[]",
      "null",
      "3",
      "{",
      "{\"a\" 1}",
      "{\"a\":}",
      ":",
      "{\"a\":NaN}",
      "{\"a\":1e999}",
      "{\"a\":\"\xC4\xE3\"}",
      "{\"a\":\"\\ud800\"}",
      "{\"a\":1}{\"b\":2}",
      std::string("{\"a\":\"\0\"}", 9),
      std::string(10 << 20, '['),
      std::string(10 << 20, '{'),
      std::string(10 << 20, ']'),
      "{\"a\":[" + std::string(10 << 20, ',') + "]}",
      "{\"a\":" + std::string(10 << 20, '9') + "}",
      "\xEF\xBB\xBF{",
  };
  for (const std::string& body : bodies) {
    const Result<Json> parsed = ParseJsonBody(body);
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << body.substr(0, 40);
  }
}

TEST(JsonBodyTest, TakesTheLastOfEqualKeysAndEscapedZeros) {
  const Result<Json> parsed = ParseJsonBody("{\"a\":1,\"a\":2,\"b\":\"\\u0000\"}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ((*parsed)["a"], 2);
  EXPECT_EQ((*parsed)["b"], std::string(1, '\0'));
}

}  // namespace
}  // namespace swiftkv
