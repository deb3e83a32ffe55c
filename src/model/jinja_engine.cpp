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

jinja::value UntrustedString(const std::string& text) {
  auto value = jinja::mk_val<jinja::value_string>(text);
  value->mark_input();
  return value;
}

// Some templates take a content only as a list of typed parts.
jinja::value Content(const std::string& text, const jinja::caps& caps) {
  jinja::value string = UntrustedString(text);
  if (caps.supports_string_content || !caps.supports_typed_content) return string;
  auto part = jinja::mk_val<jinja::value_object>();
  part->insert("type", TrustedString("text"));
  part->insert("text", string);
  auto parts = jinja::mk_val<jinja::value_array>();
  parts->push_back(jinja::value(part));
  return parts;
}

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

Result<std::vector<TextPart>> JinjaEngine::Run(const std::vector<TemplateMessage>& messages,
                                               const TemplateFlags& flags) const {
  try {
    auto list = jinja::mk_val<jinja::value_array>();
    for (const TemplateMessage& message : messages) {
      auto row = jinja::mk_val<jinja::value_object>();
      row->insert("role", TrustedString(message.role));
      row->insert("content", Content(message.content, impl_->caps));
      list->push_back(jinja::value(row));
    }
    jinja::context context(impl_->source);
    context.set_val("messages", list);
    context.set_val("bos_token", TrustedString(impl_->bos));
    context.set_val("eos_token", TrustedString(impl_->eos));
    context.set_val("enable_thinking", jinja::mk_val<jinja::value_bool>(flags.enable_thinking));
    context.set_val("add_generation_prompt",
                    jinja::mk_val<jinja::value_bool>(flags.add_generation_prompt));
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
