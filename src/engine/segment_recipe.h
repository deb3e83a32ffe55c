// SPDX-License-Identifier: Apache-2.0
// Writes the canonical text that says how a segment's tokens were chosen, and reads it again.
// Layer: engine.
//
// Pure. The text is part of a segment's key: whatever gives other pages gives another text, but for
// the seed of a policy that draws, which is the same for all of an engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policy/budget_settings.h"

namespace swiftkv {

struct SegmentRecipe {
  bool is_shared = false;  // asked for to be shared; else made of a request's own prompt
  std::string policy;      // CanonicalPolicy
  const BudgetSettings* budget = nullptr;
  std::string kept_as;     // CanonicalKeptAs; kKeptAsStored is left out
  std::string statistics;  // fingerprint of the model's statistics of queries; empty: none
};

std::string WriteRecipe(const SegmentRecipe& recipe);

// What people are told of it.
struct RecipeFields {
  bool is_shared = false;
  std::string policy;
  std::optional<double> ratio;
  std::optional<std::uint64_t> budget_tokens;
  std::string kept_as;
  std::string statistics;
};

// Returns empty fields for an empty text.
RecipeFields ReadRecipe(const std::string& text);

}  // namespace swiftkv
