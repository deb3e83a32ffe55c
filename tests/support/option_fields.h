// SPDX-License-Identifier: Apache-2.0
// Checks what options say of themselves (engine/option_field.h).
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "engine/option_field.h"

namespace swiftkv {

// Hears every field of options; expects that no key and no flag is another's.
struct DistinctFields {
  void Group(const char*) {}
  template <typename T>
  void operator()(const OptionField& field, T&) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(flags.insert(field.flags).second) << field.flags;
  }

  std::set<std::string> keys;
  std::set<std::string> flags;
};

}  // namespace swiftkv
