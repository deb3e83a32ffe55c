// SPDX-License-Identifier: Apache-2.0
// Implements reading of prompt files.
#include "tools/run_prompt_list.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/status_macros.h"
#include "engine/sampler_option_fields.h"
#include "model/chat_transcript.h"
#include "tools/flag_values.h"
#include "tools/json_excerpt.h"
#include "tools/printable_text.h"
#include "tools/prompt_source.h"

namespace swiftkv {
namespace {

using Json = nlohmann::json;

constexpr int kMostChoices = 1024;

// Puts the fields of an object into the options that describe themselves by the same keys. What a
// flag accepts as text a field accepts as a string; numbers and booleans may stand as such.
class FieldReader {
 public:
  explicit FieldReader(const Json& object) : object_(object) {}

  void operator()(const OptionField& field, bool& value) {
    const Json* const given = Take(field);
    if (given == nullptr) return;
    if (!given->is_boolean()) return Refuse(field, "true or false");
    value = given->get<bool>();
  }

  template <typename T>
  void operator()(const OptionField& field, T& value) {
    const Json* const given = Take(field);
    if (given == nullptr) return;
    if (given->is_structured()) return Refuse(field, "one value");
    Keep(ParseFlagValue(field, TextOf(*given), &value));
  }

  template <typename T>
  void operator()(const OptionField& field, std::vector<T>& values) {
    const Json* const given = Take(field);
    if (given == nullptr) return;
    if (!given->is_array()) return Refuse(field, "an array");
    values.clear();
    for (const Json& element : *given) {
      T value{};
      if (element.is_structured()) return Refuse(field, "an array of single values");
      Keep(ParseFlagValue(field, TextOf(element), &value));
      values.push_back(value);
    }
  }

  // Ok where every field was known and good.
  Status Finish() {
    for (const auto& [key, value] : object_.items()) {
      if (status_.ok() && !known_.contains(key)) {
        status_ = Status::InvalidArgument(fmt::format(
            "the object has a field that `run` does not know: {}", PrintableExcerpt(key, 60)));
      }
    }
    return status_;
  }

 private:
  const Json* Take(const OptionField& field) {
    known_.insert(field.key);
    const auto found = object_.find(field.key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  static std::string TextOf(const Json& value) {
    return value.is_string() ? value.get<std::string>() : JsonExcerpt(value);
  }
  void Keep(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  void Refuse(const OptionField& field, const char* accepted) {
    Keep(Status::InvalidArgument(fmt::format("the field {} accepts {}, got {}", field.key, accepted,
                                             JsonExcerpt(object_[field.key]))));
  }

  const Json& object_;
  std::set<std::string> known_;
  Status status_;
};

Result<PromptItem> ParseObject(const std::string& line, PromptItem item) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return Status::InvalidArgument(
        fmt::format("a line must be a JSON object, got {}", PrintableExcerpt(line, 60)));
  }
  FieldReader read(object);
  read(OptionField{"prompt", "prompt", "", ""}, item.prompt);
  read(OptionField{"system", "system", "", ""}, item.system);
  read(OptionField{"priority", "priority", "", "", -kMostChoices, kMostChoices}, item.priority);
  read(OptionField{"choices", "choices", "", "", 1, kMostChoices}, item.choices);
  VisitOptions(read, item.generation);
  VisitOptions(read, item.sampling);
  SKV_RETURN_IF_ERROR(read.Finish());
  if (!object.contains("prompt") || item.prompt.empty()) {
    return Status::InvalidArgument(fmt::format(
        "an object must have a prompt that is not empty, got {}", PrintableExcerpt(line, 60)));
  }
  return item;
}

// Calls `take` with the number, from 1, and the text of each line that is not empty.
template <typename Take>
Status ForEachLine(const std::string& text, const Take& take) {
  int number = 0;
  for (std::size_t start = 0; start < text.size();) {
    ++number;
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    if (line.ends_with('\r')) line.pop_back();
    start = end + 1;
    if (line.find_first_not_of(" \t") != std::string::npos) {
      SKV_RETURN_IF_ERROR(take(number, line));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<PromptItem>> ParsePromptList(const std::string& text,
                                                const RunOptions& options) {
  SKV_RETURN_IF_ERROR(CheckUtf8(text, "the file of prompts"));
  PromptItem defaults;
  defaults.system = options.prompt.system;
  defaults.generation = options.generation;
  defaults.sampling = options.sampling;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  std::vector<PromptItem> items;
  SKV_RETURN_IF_ERROR(ForEachLine(text, [&](int number, const std::string& line) {
    items.push_back(defaults);
    if (!is_json) {
      items.back().prompt = line;
      return Status::Ok();
    }
    const Result<PromptItem> item = ParseObject(line, defaults);
    if (!item.ok()) {
      return Status(item.status().code(),
                    fmt::format("line {}: {}", number, item.status().message()));
    }
    items.back() = *item;
    return Status::Ok();
  }));
  if (items.empty()) {
    return Status::InvalidArgument("--prompts needs a file with at least one prompt, got 0");
  }
  return items;
}

Result<std::vector<TokenId>> PromptTokens(const ModelStack& stack, const std::string& system,
                                          const std::string& prompt) {
  if (stack.chat_template == nullptr) {
    if (!system.empty()) {
      return Status::Unsupported(fmt::format(
          "--system needs a chat template, which the model lacks; model {}", stack.path));
    }
    return stack.vocabulary->EncodePrompt(prompt);
  }
  ChatTranscript transcript(*stack.chat_template, system);
  return transcript.AddUserMessage(prompt);
}

}  // namespace swiftkv
