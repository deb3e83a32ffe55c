// SPDX-License-Identifier: Apache-2.0
// Walks a schema as the converter would, with a budget.
#include "model/grammar_schema.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>

#include "base/json_marks.h"
#include "base/status_macros.h"
#include "json.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMaxNameBytes = 256;    // of a property
constexpr std::size_t kMaxRefBytes = 512;     // of a $ref
constexpr std::uint64_t kMaxWork = 1U << 15;  // about a tenth of a second of converting

// Returns the deepest nesting of brackets and braces outside of strings.
int DeepestNesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  ForEachJsonMark(text, [&](char mark) {
    if (mark == '{' || mark == '[') deepest = std::max(deepest, ++depth);
    if (mark == '}' || mark == ']') --depth;
    return true;
  });
  return deepest;
}

bool IsDigits(std::string_view text) {
  return text.size() <= 4 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Reads patterns of the kind that becomes a grammar: anchored at both ends, plain groups, classes
// and repetitions.
class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : text_(pattern) {}

  bool BecomesGrammar() {
    if (text_.size() < 2 || text_.front() != '^' || text_.back() != '$') return false;
    text_ = text_.substr(1, text_.size() - 2);
    while (at_ < text_.size()) {
      if (!Next()) return false;
    }
    return true;
  }

 private:
  bool Next() {
    const char c = text_[at_++];
    if (c == '\\') return Escape("^$.[](){}|*+?tnr\\\"-");
    if (c == '(' && at_ < text_.size() && text_[at_] == '?') {
      return text_.substr(at_ + 1).starts_with(":");
    }
    if (c == '[') return Class();
    if (c == '{') return Repetition();
    return c != '^' && c != '$' && c != ']' && c != '}';
  }

  bool Escape(std::string_view known) {
    return at_ < text_.size() && known.find(text_[at_++]) != std::string_view::npos;
  }

  bool Class() {
    for (bool first = true; at_ < text_.size(); first = false) {
      const char c = text_[at_++];
      if (c == ']' && !first) return true;
      if (c == ']' || (c == '\\' && !Escape("tnr\\\"[]-"))) return false;
    }
    return false;
  }

  bool Repetition() {
    const std::size_t end = text_.find('}', at_);
    if (end == std::string_view::npos) return false;
    const std::string_view range = text_.substr(at_, end - at_);
    at_ = end + 1;
    const std::size_t comma = range.find(',');
    const std::string_view least = range.substr(0, comma);
    const std::string_view most =
        comma == std::string_view::npos ? std::string_view() : range.substr(comma + 1);
    return !least.empty() && IsDigits(least) && IsDigits(most);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool NamesSchemas(const std::string& key) {
  return key == "properties" || key == "$defs" || key == "definitions" ||
         key == "patternProperties" || key == "dependentSchemas";
}

bool HoldsValues(const std::string& key) {
  return key == "const" || key == "enum" || key == "default" || key == "examples" ||
         key == "example";
}

class SchemaWalk {
 public:
  explicit SchemaWalk(common_json* root) : root_(root) {}

  // `weight`: times that the converter comes here. `merged`: the schema is a part of an allOf, so
  // that a reference is followed; returns the properties that it adds to the object.
  std::uint64_t Visit(common_json& schema, int depth, std::uint64_t weight, bool merged) {
    Spend(weight);
    if (depth > kMaxSchemaDepth) {
      Fail("may nest, references inside allOf followed, " + std::to_string(kMaxSchemaDepth) +
           " deep, not deeper");
    }
    if (!ok()) return 0;
    if (schema.is_array()) return List(schema, depth, weight, merged);
    if (!schema.is_object()) return 0;
    if (schema.contains("pattern") && schema.at("pattern").is_string()) DropPattern(schema);
    if (schema.contains("type") && schema.at("type").is_array()) {
      weight *= std::max<std::size_t>(1, schema.at("type").size());
    }
    std::uint64_t properties = merged ? Follow(schema, depth, weight) : 0;
    for (auto item = schema.begin(); item != schema.end() && ok(); ++item) {
      properties += Keyword(item.key(), item.value(), depth, weight, merged);
    }
    return properties;
  }

  bool ok() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }

 private:
  void Fail(const std::string& problem) {
    if (ok()) problem_ = problem;
  }

  void Spend(std::uint64_t work) {
    work_ += std::min(work, kMaxWork + 1);
    if (work_ > kMaxWork) {
      Fail("is too large once its types and references are written out, more than " +
           std::to_string(kMaxWork) + " steps");
    }
  }

  static void DropPattern(common_json& schema) {
    const std::string pattern = schema.at("pattern").get<std::string>();
    if (pattern.size() > kMaxRefBytes || !PatternReader(pattern).BecomesGrammar()) {
      schema.erase("pattern");
      // Without a type it was the pattern that said that the value is a string.
      if (!schema.contains("minLength")) schema["minLength"] = 0;
    }
  }

  std::uint64_t List(common_json& list, int depth, std::uint64_t weight, bool merged) {
    std::uint64_t properties = 0;
    for (auto item = list.begin(); item != list.end() && ok(); ++item) {
      properties += Visit(*item, depth + 1, weight, merged);
    }
    return properties;
  }

  // Returns the properties that the keyword adds to an object merged by allOf.
  std::uint64_t Keyword(const std::string& key, common_json& value, int depth, std::uint64_t weight,
                        bool merged) {
    if (key == "$ref" && value.is_string()) CheckReference(value.get<std::string>());
    if (HoldsValues(key)) {
      Spend(weight * (1 + value.size()));
      return 0;
    }
    if (NamesSchemas(key) && value.is_object()) {
      for (auto item = value.begin(); item != value.end() && ok(); ++item) {
        if (item.key().size() > kMaxNameBytes) {
          Fail("may have names of " + std::to_string(kMaxNameBytes) + " bytes, not of " +
               std::to_string(item.key().size()));
        }
        Visit(item.value(), depth + 2, weight, /*merged=*/false);
      }
      if (key != "properties") return 0;
      CheckProperties(value.size(), weight);
      return value.size();
    }
    const bool merges = key == "allOf" || (merged && (key == "anyOf" || key == "oneOf"));
    const std::uint64_t properties = Visit(value, depth + 1, weight, merges);
    if (key == "allOf") CheckProperties(properties, weight);
    return merges && merged ? properties : 0;
  }

  void CheckProperties(std::uint64_t count, std::uint64_t weight) {
    if (count > kMaxSchemaProperties) {
      Fail("may have " + std::to_string(kMaxSchemaProperties) + " properties in one object, not " +
           std::to_string(count));
    }
    Spend(weight * (count * count / 8));
  }

  void CheckReference(const std::string& reference) {
    if (++references_ > kMaxSchemaReferences || reference.size() > kMaxRefBytes) {
      Fail("may have " + std::to_string(kMaxSchemaReferences) + " $ref of " +
           std::to_string(kMaxRefBytes) + " bytes, not more");
    }
  }

  // Visits what a reference inside allOf means.
  std::uint64_t Follow(common_json& schema, int depth, std::uint64_t weight) {
    if (!schema.contains("$ref") || !schema.at("$ref").is_string()) return 0;
    const std::string reference = schema.at("$ref").get<std::string>();
    if (!reference.starts_with("#/")) return 0;  // refused by the converter
    common_json* target = root_;
    std::size_t at = 2;
    while (target != nullptr && at <= reference.size()) {
      const std::size_t end = std::min(reference.find('/', at), reference.size());
      const std::string key = reference.substr(at, end - at);
      at = end + 1;
      if (target->is_object() && target->contains(key)) {
        target = &target->at(key);
      } else if (target->is_array() && !key.empty() && IsDigits(key) &&
                 static_cast<std::size_t>(std::stoi(key)) < target->size()) {
        target = &target->at(static_cast<std::size_t>(std::stoi(key)));
      } else {
        target = nullptr;
      }
    }
    return target == nullptr ? 0 : Visit(*target, depth + 1, weight, /*merged=*/true);
  }

  common_json* root_;
  std::uint64_t work_ = 0;
  int references_ = 0;
  std::string problem_;
};

}  // namespace

Result<std::string> SchemaForGrammar(std::string_view schema) {
  if (schema.size() > kMaxSchemaBytes) {
    return Status::InvalidArgument("a JSON schema may have at most " +
                                   std::to_string(kMaxSchemaBytes) + " bytes, not " +
                                   std::to_string(schema.size()));
  }
  if (const int nesting = DeepestNesting(schema); nesting > kMaxSchemaDepth) {
    return Status::InvalidArgument("a JSON schema may nest " + std::to_string(kMaxSchemaDepth) +
                                   " deep, not " + std::to_string(nesting));
  }
  try {
    common_json root = common_json::parse(std::string(schema));
    SchemaWalk walk(&root);
    walk.Visit(root, 1, 1, /*merged=*/false);
    if (!walk.ok()) return Status::InvalidArgument("a JSON schema " + walk.problem());
    return root.dump_safe();
  } catch (const std::exception& error) {
    return Status::InvalidArgument("a JSON schema must be JSON: " + std::string(error.what()));
  }
}

}  // namespace swiftkv
