// SPDX-License-Identifier: Apache-2.0
// Joins words with blanks between, and takes them apart.
#include "engine/segment_recipe.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "engine/kept_formats.h"
#include "policy/policy_text.h"

namespace swiftkv {
namespace {

constexpr std::string_view kKeptAs = "kept_as=";
constexpr std::string_view kStatistics = "statistics=";
constexpr std::string_view kRatio = "ratio=";
constexpr std::string_view kTokens = "tokens=";

std::string_view TakeWord(std::string_view* text) {
  const std::size_t end = text->find(' ');
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return word;
}

// Reads the number after `name`, where the text begins with that.
template <typename T>
std::optional<T> NumberAfter(std::string_view name, std::string_view text) {
  if (!text.starts_with(name)) return std::nullopt;
  text.remove_prefix(name.size());
  T number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string WriteRecipe(const SegmentRecipe& recipe) {
  std::string text = fmt::format("{} {} {}", recipe.is_shared ? "shared" : "prompt", recipe.policy,
                                 CanonicalBudget(*recipe.budget));
  if (recipe.kept_as != kKeptAsStored) text += fmt::format(" {}{}", kKeptAs, recipe.kept_as);
  if (!recipe.statistics.empty()) text += fmt::format(" {}{}", kStatistics, recipe.statistics);
  return text;
}

RecipeFields ReadRecipe(const std::string& text) {
  RecipeFields fields;
  if (text.empty()) return fields;
  std::string_view rest = text;
  fields.is_shared = TakeWord(&rest) == "shared";
  fields.policy = TakeWord(&rest);
  const std::string_view budget = TakeWord(&rest);
  fields.ratio = NumberAfter<double>(kRatio, budget);
  fields.budget_tokens = NumberAfter<std::uint64_t>(kTokens, budget);
  fields.kept_as = kKeptAsStored;
  while (!rest.empty()) {
    const std::string_view word = TakeWord(&rest);
    if (word.starts_with(kKeptAs)) fields.kept_as = word.substr(kKeptAs.size());
    if (word.starts_with(kStatistics)) fields.statistics = word.substr(kStatistics.size());
  }
  return fields;
}

}  // namespace swiftkv
