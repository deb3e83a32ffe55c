// SPDX-License-Identifier: Apache-2.0
// Checks that the text for quality tests is the stretch of English that it is meant to be.
#include "support/prose.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace swiftkv {
namespace {

TEST(ProseTest, TheExcerptIsEnglishProse) {
  const Result<std::string> text = PolicyProse();
  if (!text.ok()) GTEST_SKIP() << text.status().message();
  EXPECT_EQ(text->size(), 48000U);
  EXPECT_NE(text->find("package"), std::string::npos);
  const auto spaces = std::count(text->begin(), text->end(), ' ');
  EXPECT_GT(spaces, 5000);
  EXPECT_LT(spaces, 16000);
}

TEST(ProseTest, AnExcerptPastTheEndIsAnError) {
  const Result<std::string> text = PolicyProse(0, 1000000000);
  EXPECT_FALSE(text.ok());
}

}  // namespace
}  // namespace swiftkv
