// SPDX-License-Identifier: Apache-2.0
// Asks llama.cpp for the parser, grammar and triggers of a template; its chat types stay in this
// file.
#include "model/reply_format.h"

#include <algorithm>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "chat.h"
#include "common.h"
#include "model/grammar_schema.h"
#include "model/grammar_syntax.h"
#include "model/grammar_union.h"
#include "model/json_grammar.h"
#include "model/llama_guard.h"

// Of a header that is not installed with the library.
void common_log_set_verbosity_thold(int verbosity);

namespace swiftkv {
namespace {

constexpr std::size_t kKeptFormats = 16;

// The library's chat code prints what it thinks of templates; below every level it prints nothing.
void SilenceLibrary() {
  static std::once_flag silenced;
  std::call_once(silenced, [] { common_log_set_verbosity_thold(-1); });
}

common_chat_tool_choice ChoiceOf(ToolChoice choice) {
  switch (choice) {
    case ToolChoice::kAuto:
      return COMMON_CHAT_TOOL_CHOICE_AUTO;
    case ToolChoice::kRequired:
      return COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    case ToolChoice::kNone:
      break;
  }
  return COMMON_CHAT_TOOL_CHOICE_NONE;
}

common_chat_msg MessageOf(const ChatMessage& message) {
  common_chat_msg made;
  made.role = message.role;
  made.content = message.content;
  made.reasoning_content = message.reasoning;
  made.tool_name = message.name;
  made.tool_call_id = message.tool_call_id;
  for (const ChatToolCall& call : message.tool_calls) {
    made.tool_calls.push_back({call.name, call.arguments, call.id});
  }
  return made;
}

// Errors: InvalidArgument naming the tool whose parameters cannot become a grammar.
Result<ReplyWishes> WithGrammarSchemas(ReplyWishes wishes) {
  for (ChatTool& tool : wishes.tools) {
    Result<std::string> schema = SchemaForGrammar(tool.parameters);
    if (!schema.ok()) {
      return Status::InvalidArgument("the parameters of the tool " + tool.name + ": " +
                                     schema.status().message());
    }
    tool.parameters = std::move(schema).value();
  }
  if (!wishes.json_schema.empty()) {
    SKV_ASSIGN_OR_RETURN(wishes.json_schema, SchemaForGrammar(wishes.json_schema));
  }
  return wishes;
}

common_chat_templates_inputs InputsOf(const std::vector<ChatMessage>& messages,
                                      const ReplyWishes& wishes) {
  common_chat_templates_inputs inputs;
  for (const ChatMessage& message : messages) inputs.messages.push_back(MessageOf(message));
  for (const ChatTool& tool : wishes.tools) {
    inputs.tools.push_back({tool.name, tool.description, tool.parameters});
  }
  inputs.tool_choice = ChoiceOf(wishes.choice);
  inputs.parallel_tool_calls = wishes.parallel_calls;
  inputs.reasoning_format =
      wishes.split_reasoning ? COMMON_REASONING_FORMAT_AUTO : COMMON_REASONING_FORMAT_NONE;
  inputs.enable_thinking = wishes.enable_thinking;
  inputs.json_schema = wishes.json_schema;
  return inputs;
}

// Returns whether the text that the prompt ends with has opened reasoning and not closed it.
bool EndsInReasoning(const common_chat_params& params) {
  if (params.thinking_start_tag.empty()) return false;
  const std::size_t start = params.generation_prompt.rfind(params.thinking_start_tag);
  if (start == std::string::npos) return false;
  return std::none_of(params.thinking_end_tags.begin(), params.thinking_end_tags.end(),
                      [&](const std::string& end) {
                        return params.generation_prompt.find(end, start) != std::string::npos;
                      });
}

GrammarTriggers TriggersOf(const common_chat_params& params) {
  GrammarTriggers triggers;
  for (const common_grammar_trigger& trigger : params.grammar_triggers) {
    const bool is_word = trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_WORD ||
                         trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN;
    (is_word ? triggers.words : triggers.patterns).push_back(trigger.value);
  }
  triggers.reasoning_start = params.thinking_start_tag;
  triggers.reasoning_ends = params.thinking_end_tags;
  triggers.in_reasoning = EndsInReasoning(params);
  return triggers;
}

// The library's grammar of a reply that must call lets content of any length go before the call.
// Returns the same grammar for the calls alone; empty where it has no rule for them.
std::string CallsAlone(const std::string& grammar) {
  const std::string lines = "\n" + grammar;
  const std::size_t root = lines.find("\nroot ::= ");
  if (root == std::string::npos) return {};
  const std::size_t end = std::min(lines.find('\n', root + 1), lines.size());
  for (const char* name : {"tool-calls", "tool-call"}) {
    if (lines.find("\n" + std::string(name) + " ::= ") == std::string::npos) continue;
    return lines.substr(1, root) + "root ::= " + name + lines.substr(end);
  }
  return {};
}

// Returns a text that differs for all that a format depends on: lengths keep fields apart.
std::string KeyOf(const std::string& reply_start, const ReplyWishes& wishes) {
  std::string key;
  const auto add = [&](const std::string& text) {
    key += std::to_string(text.size()) + ":" + text;
  };
  add(reply_start);
  add(wishes.json_schema);
  key += std::to_string(static_cast<int>(wishes.choice)) + (wishes.parallel_calls ? "p" : "-") +
         (wishes.split_reasoning ? "r" : "-") + (wishes.enable_thinking ? "t" : "-");
  for (const ChatTool& tool : wishes.tools) {
    add(tool.name);
    add(tool.parameters);
  }
  return key;
}

// Some formats have a rule for calls one after the other even where one call is wanted. Returns the
// grammar with one in its place.
std::string WithOneCall(std::string grammar) {
  for (const char* rule :
       {"\ntool-calls ::= (tool-call space)+\n", "\ntool-calls ::= (tool-call? space)+\n"}) {
    const std::size_t at = grammar.find(rule);
    if (at == std::string::npos) continue;
    grammar.replace(at, std::string_view(rule).size(), "\ntool-calls ::= tool-call space\n");
  }
  return grammar;
}

// Cuts a character that has not come whole yet.
std::string WholeCharacters(std::string text) {
  text.resize(ValidUtf8Prefix(text));
  return text;
}

}  // namespace

struct ReplyFormat::Impl {
  common_chat_parser_params parser;
  std::string grammar;
  std::optional<GrammarTriggers> triggers;
  std::string prefix;
  std::vector<ShownToken> shown;
  std::vector<std::string> stops;

  void SetGrammar(const common_chat_params& params, const ReplyWishes& wishes);
  // Calls, or content that follows `wishes.json_schema`. `params` are of a reply that must call.
  Status SetEither(const common_chat_params& params, const ReplyWishes& wishes);
};

Status ReplyFormat::Impl::SetEither(const common_chat_params& params, const ReplyWishes& wishes) {
  const bool may_think = params.supports_thinking && wishes.enable_thinking;
  const std::string calls =
      CallsAlone(wishes.parallel_calls ? params.grammar : WithOneCall(params.grammar));
  if (may_think || calls.empty()) {
    return Status::Unsupported(
        "with this model's template a reply cannot be held to a schema beside tools that it may "
        "call; turn thinking off, make tool_choice none or required, or leave out: "
        "response_format");
  }
  SKV_ASSIGN_OR_RETURN(const std::string content, GrammarFromJsonSchema(wishes.json_schema));
  grammar = EitherGrammar(calls, content);
  triggers.reset();
  return Status::Ok();
}

void ReplyFormat::Impl::SetGrammar(const common_chat_params& params, const ReplyWishes& wishes) {
  grammar = wishes.parallel_calls ? params.grammar : WithOneCall(params.grammar);
  if (params.grammar_lazy) {
    triggers = TriggersOf(params);
    return;
  }
  const bool may_think = params.supports_thinking && wishes.enable_thinking;
  const std::string calls =
      wishes.choice == ToolChoice::kRequired && !may_think ? CallsAlone(grammar) : std::string();
  if (!calls.empty()) {
    grammar = calls;
  } else if (!grammar.empty()) {
    prefix = params.generation_prompt;
  }
}

struct ReplyFormats::Impl {
  const Vocabulary* vocabulary = nullptr;
  common_chat_templates_ptr templates;
  bool marks_reasoning = false;
  bool knows_parallel_calls = false;

  std::mutex mutex;  // guards what is below
  std::list<std::pair<std::string, std::shared_ptr<const ReplyFormat>>> kept;  // newest first
};

ReplyFormat::ReplyFormat(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ReplyFormat::~ReplyFormat() = default;

void ReplyFormat::Apply(SamplerOptions* sampling) const {
  if (impl_->grammar.empty()) return;
  sampling->grammar = impl_->grammar;
  sampling->grammar_triggers = impl_->triggers;
  sampling->grammar_prefix = impl_->prefix;
}

const std::vector<ShownToken>& ReplyFormat::shown_tokens() const { return impl_->shown; }
const std::vector<std::string>& ReplyFormat::stops() const { return impl_->stops; }

ParsedReply ReplyFormat::Parse(const std::string& text, bool is_whole) const {
  common_chat_msg message;
  const LlamaGuard guard;
  try {
    message = common_chat_parse(text, !is_whole, impl_->parser);
  } catch (const std::exception&) {
    // A reply that was cut short in a call reads as far as it goes.
    try {
      if (is_whole) message = common_chat_parse(text, /*is_partial=*/true, impl_->parser);
    } catch (const std::exception&) {
      message = {};
    }
    if (is_whole && message.empty()) message.content = text;
  }
  ParsedReply reply;
  reply.reasoning = WholeCharacters(std::move(message.reasoning_content));
  reply.content = WholeCharacters(std::move(message.content));
  for (common_chat_tool_call& call : message.tool_calls) {
    reply.tool_calls.push_back({.id = std::move(call.id),
                                .name = std::move(call.name),
                                .arguments = WholeCharacters(std::move(call.arguments))});
  }
  return reply;
}

ReplyFormats::ReplyFormats(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ReplyFormats::~ReplyFormats() = default;

Result<std::unique_ptr<ReplyFormats>> ReplyFormats::FromSource(const Vocabulary& vocabulary,
                                                               const std::string& source) {
  SilenceLibrary();
  const LlamaGuard guard;
  try {
    auto impl = std::make_unique<Impl>();
    impl->vocabulary = &vocabulary;
    impl->templates =
        common_chat_templates_init(nullptr, source, vocabulary.TokenToPiece(vocabulary.bos(), true),
                                   vocabulary.TokenToPiece(vocabulary.eos(), true));
    const ReplyWishes plain;
    const auto params =
        common_chat_templates_apply(impl->templates.get(), InputsOf({{"user", "Hello"}}, plain));
    impl->marks_reasoning = params.supports_thinking;
    impl->knows_parallel_calls =
        common_chat_templates_get_caps(impl->templates.get())["supports_parallel_tool_calls"];
    return std::unique_ptr<ReplyFormats>(new ReplyFormats(std::move(impl)));
  } catch (const std::exception& error) {
    return Status::InvalidArgument("the format of replies cannot be learnt from the template: " +
                                   std::string(error.what()));
  }
}

bool ReplyFormats::marks_reasoning() const { return impl_->marks_reasoning; }

Result<std::shared_ptr<const ReplyFormat>> ReplyFormats::Make(
    const std::vector<ChatMessage>& messages, const std::string& reply_start,
    const ReplyWishes& wishes) const {
  const std::string key = KeyOf(reply_start, wishes);
  {
    const std::lock_guard lock(impl_->mutex);
    for (auto kept = impl_->kept.begin(); kept != impl_->kept.end(); ++kept) {
      if (kept->first != key) continue;
      impl_->kept.splice(impl_->kept.begin(), impl_->kept, kept);
      return impl_->kept.front().second;
    }
  }
  SKV_ASSIGN_OR_RETURN(std::shared_ptr<const ReplyFormat> format, MakeAnew(messages, wishes));
  const std::lock_guard lock(impl_->mutex);
  impl_->kept.emplace_front(key, format);
  if (impl_->kept.size() > kKeptFormats) impl_->kept.pop_back();
  return format;
}

Result<std::shared_ptr<const ReplyFormat>> ReplyFormats::MakeAnew(
    const std::vector<ChatMessage>& messages, const ReplyWishes& asked) const {
  SKV_ASSIGN_OR_RETURN(ReplyWishes wishes, WithGrammarSchemas(asked));
  wishes.parallel_calls = wishes.parallel_calls && impl_->knows_parallel_calls;
  // The library has schemas for replies that call nothing; a reply that must call has no content.
  const bool is_either = wishes.choice == ToolChoice::kAuto && !asked.json_schema.empty();
  if (wishes.choice != ToolChoice::kNone) wishes.json_schema.clear();
  const LlamaGuard guard;
  try {
    const common_chat_params params =
        common_chat_templates_apply(impl_->templates.get(), InputsOf(messages, wishes));
    auto format = std::make_unique<ReplyFormat::Impl>();
    format->parser = common_chat_parser_params(params);
    format->parser.reasoning_format =
        wishes.split_reasoning ? COMMON_REASONING_FORMAT_AUTO : COMMON_REASONING_FORMAT_NONE;
    if (!params.parser.empty()) format->parser.parser.load(params.parser);
    format->SetGrammar(params, wishes);
    if (is_either) {
      wishes.choice = ToolChoice::kRequired;
      const common_chat_params must_call =
          common_chat_templates_apply(impl_->templates.get(), InputsOf(messages, wishes));
      wishes.json_schema = asked.json_schema;
      SKV_RETURN_IF_ERROR(format->SetEither(must_call, wishes));
    }
    if (!format->grammar.empty()) {
      SKV_RETURN_IF_ERROR(CheckGrammarSyntax(format->grammar, *impl_->vocabulary));
    }
    for (const std::string& text : params.preserved_tokens) {
      const TokenId token = impl_->vocabulary->FindSpecialToken(text);
      if (token != kNoToken && impl_->vocabulary->IsControl(token)) {
        format->shown.push_back({token, text});
      }
    }
    format->stops = params.additional_stops;
    return std::shared_ptr<const ReplyFormat>(new ReplyFormat(std::move(format)));
  } catch (const std::exception& error) {
    return Status::InvalidArgument("the reply's format cannot be made: " +
                                   std::string(error.what()));
  }
}

}  // namespace swiftkv
