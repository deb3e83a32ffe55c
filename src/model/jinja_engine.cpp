// SPDX-License-Identifier: Apache-2.0
// Translates messages into the engine's values and its string parts back; the engine's types stay
// in this file.
#include "model/jinja_engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "jinja/caps.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "json.h"

namespace swiftkv {
namespace {

// Ten times the largest templates in use. The parser recurses with nesting.
constexpr std::size_t kMaxSourceBytes = 1U << 20;
constexpr int kMaxNesting = 200;

// Returns the deepest nesting of brackets or of block statements.
int DeepestNesting(std::string_view source) {
  int brackets = 0;
  int blocks = 0;
  int deepest = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const char c = source[i];
    if (c == '(' || c == '[' || c == '{') ++brackets;
    if (c == ')' || c == ']' || c == '}') --brackets;
    if (source.substr(i, 2) == "{%") {
      std::size_t word = i + 2;
      while (word < source.size() && (source[word] == '-' || source[word] == ' ')) ++word;
      const std::string_view rest = source.substr(word);
      if (rest.starts_with("if") || rest.starts_with("for") || rest.starts_with("macro")) ++blocks;
      if (rest.starts_with("end")) --blocks;
    }
    deepest = std::max({deepest, brackets, blocks});
  }
  return deepest;
}

// The engine wraps messages in excerpts of the source; the last "Error: " starts what was said.
std::string OwnWords(const std::string& message) {
  std::string words = message;
  if (const std::size_t at = words.rfind("Error: "); at != std::string::npos)
    words.erase(0, at + 7);
  constexpr std::string_view kRaised = "Jinja Exception: ";
  if (words.starts_with(kRaised)) words.erase(0, kRaised.size());
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  return words;
}

jinja::value TrustedString(const std::string& text) {
  return jinja::mk_val<jinja::value_string>(text);
}

// Makes the values that a template sees of one chat.
class ValueMaker {
 public:
  ValueMaker(const TemplateInput& input, const jinja::caps& caps) : input_(input), caps_(caps) {}

  jinja::value Messages(const std::vector<ChatMessage>& messages) const {
    auto list = jinja::mk_val<jinja::value_array>();
    for (const ChatMessage& message : messages) list->push_back(Message(message));
    return list;
  }

  jinja::value Tools() const {
    auto list = jinja::mk_val<jinja::value_array>();
    for (const ChatTool& tool : input_.tools) {
      auto function = jinja::mk_val<jinja::value_object>();
      function->insert("name", Untrusted(tool.name));
      function->insert("description", Untrusted(tool.description));
      function->insert("parameters", FromJson(common_json::parse(tool.parameters)));
      list->push_back(Function(function));
    }
    return list;
  }

 private:
  std::string Edited(const std::string& text) const {
    return input_.edit ? input_.edit(text) : text;
  }

  jinja::value Untrusted(const std::string& text) const {
    auto value = jinja::mk_val<jinja::value_string>(Edited(text));
    value->mark_input();
    return value;
  }

  // Some templates take a content only as a list of typed parts.
  jinja::value Content(const std::string& text) const {
    jinja::value string = Untrusted(text);
    if (caps_.supports_string_content || !caps_.supports_typed_content) return string;
    auto part = jinja::mk_val<jinja::value_object>();
    part->insert("type", TrustedString("text"));
    part->insert("text", string);
    auto parts = jinja::mk_val<jinja::value_array>();
    parts->push_back(jinja::value(part));
    return parts;
  }

  // The depth of what is given was bounded where it was parsed.
  jinja::value FromJson(const common_json& json) const {
    if (json.is_string()) return Untrusted(json.get<std::string>());
    if (json.is_boolean()) return jinja::mk_val<jinja::value_bool>(json.get<bool>());
    if (json.is_number_integer()) return jinja::mk_val<jinja::value_int>(json.get<std::int64_t>());
    if (json.is_number_float()) return jinja::mk_val<jinja::value_float>(json.get<double>());
    if (json.is_array()) {
      auto list = jinja::mk_val<jinja::value_array>();
      for (const common_json& item : json) list->push_back(FromJson(item));
      return list;
    }
    if (!json.is_object()) return jinja::mk_val<jinja::value_none>();
    auto object = jinja::mk_val<jinja::value_object>();
    for (auto item = json.begin(); item != json.end(); ++item) {
      object->insert(Edited(item.key()), FromJson(item.value()));
    }
    return object;
  }

  static jinja::value Function(const jinja::value_object& function) {
    auto entry = jinja::mk_val<jinja::value_object>();
    entry->insert("type", TrustedString("function"));
    entry->insert("function", function);
    return entry;
  }

  jinja::value Call(const ChatToolCall& call) const {
    auto function = jinja::mk_val<jinja::value_object>();
    function->insert("name", Untrusted(call.name));
    function->insert("arguments", caps_.supports_object_arguments
                                      ? FromJson(common_json::parse(call.arguments))
                                      : Untrusted(call.arguments));
    jinja::value entry = Function(function);
    if (!call.id.empty()) {
      dynamic_cast<jinja::value_object_t&>(*entry).insert("id", Untrusted(call.id));
    }
    return entry;
  }

  jinja::value Message(const ChatMessage& message) const {
    auto row = jinja::mk_val<jinja::value_object>();
    row->insert("role", TrustedString(message.role));
    row->insert("content", Content(message.content));
    if (!message.reasoning.empty()) {
      row->insert("reasoning_content", Untrusted(message.reasoning));
    }
    if (!message.name.empty()) row->insert("name", Untrusted(message.name));
    if (!message.tool_call_id.empty()) {
      row->insert("tool_call_id", Untrusted(message.tool_call_id));
    }
    if (message.tool_calls.empty()) return row;
    auto calls = jinja::mk_val<jinja::value_array>();
    for (const ChatToolCall& call : message.tool_calls) calls->push_back(Call(call));
    row->insert("tool_calls", calls);
    return row;
  }

  const TemplateInput& input_;
  const jinja::caps& caps_;
};

}  // namespace

struct JinjaEngine::Impl {
  std::string source;  // as the parser's positions count
  jinja::program program;
  jinja::caps caps;
  std::string bos;
  std::string eos;
};

JinjaEngine::JinjaEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JinjaEngine::~JinjaEngine() = default;

Result<std::unique_ptr<JinjaEngine>> JinjaEngine::Parse(const std::string& source, std::string bos,
                                                        std::string eos) {
  if (source.size() > kMaxSourceBytes) {
    return Status::InvalidArgument("a chat template may have at most " +
                                   std::to_string(kMaxSourceBytes) + " bytes, not " +
                                   std::to_string(source.size()));
  }
  if (const int nesting = DeepestNesting(source); nesting > kMaxNesting) {
    return Status::InvalidArgument("a chat template may nest " + std::to_string(kMaxNesting) +
                                   " deep, not " + std::to_string(nesting));
  }
  try {
    auto impl = std::make_unique<Impl>();
    jinja::lexer lexer;
    const jinja::lexer_result tokens = lexer.tokenize(source);
    impl->source = tokens.source;
    impl->program = jinja::parse_from_tokens(tokens);
    impl->caps = jinja::caps_get(impl->program);
    impl->bos = std::move(bos);
    impl->eos = std::move(eos);
    return std::unique_ptr<JinjaEngine>(new JinjaEngine(std::move(impl)));
  } catch (const std::exception& error) {
    return Status::InvalidArgument("the chat template does not parse: " + OwnWords(error.what()));
  }
}

bool JinjaEngine::supports_system_role() const { return impl_->caps.supports_system_role; }

bool JinjaEngine::supports_tools() const {
  return impl_->caps.supports_tools && impl_->caps.supports_tool_calls;
}

Result<std::vector<TextPart>> JinjaEngine::Run(const std::vector<ChatMessage>& messages,
                                               const TemplateInput& input) const {
  try {
    const ValueMaker maker(input, impl_->caps);
    jinja::context context(impl_->source);
    context.set_val("messages", maker.Messages(messages));
    if (!input.tools.empty()) context.set_val("tools", maker.Tools());
    context.set_val("bos_token", TrustedString(impl_->bos));
    context.set_val("eos_token", TrustedString(impl_->eos));
    context.set_val("enable_thinking", jinja::mk_val<jinja::value_bool>(input.enable_thinking));
    context.set_val("add_generation_prompt",
                    jinja::mk_val<jinja::value_bool>(input.add_generation_prompt));
    jinja::runtime runtime(context);
    const jinja::value_string text =
        jinja::runtime::gather_string_parts(runtime.execute(impl_->program));
    std::vector<TextPart> parts;
    for (const jinja::string_part& part : text->val_str.parts) {
      if (!part.val.empty()) parts.push_back({part.val, !part.is_input});
    }
    return parts;
  } catch (const std::exception& error) {
    return Status::InvalidArgument("the model's chat template refuses the messages: " +
                                   OwnWords(error.what()));
  }
}

}  // namespace swiftkv
