// SPDX-License-Identifier: Apache-2.0
// Checks messages, renders them, and makes sure that no text of a message became a control token.
//
// The engine marks what came from messages, but some of its operations lose the mark (the pieces of
// a split, a join). So messages that hold the text of a control token are rendered twice, the
// second time with each such text broken by a seal that nobody can guess. Where both renderings
// have the same control tokens, the first one is right; else the second one is taken, with the
// seals removed and their places untrusted. (Not always the second, because a template may look for
// such a text in a reply: to drop earlier reasoning, say.)
#include "model/chat_template.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "model/jinja_engine.h"
#include "model/tool_fallback.h"

namespace swiftkv {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

// Returns text that no message holds: 128 random bits in digits, which no template changes, between
// private-use characters.
std::string MakeSeal() {
  std::random_device device;
  std::string seal = "\xEE\x80\x80";
  for (int i = 0; i < 4; ++i) seal += std::to_string(device());
  return seal + "\xEE\x80\x81";
}

std::vector<const std::string*> TextsOf(const ChatMessage& message) {
  std::vector<const std::string*> texts = {&message.content, &message.reasoning, &message.name,
                                           &message.tool_call_id};
  for (const ChatToolCall& call : message.tool_calls) {
    texts.insert(texts.end(), {&call.id, &call.name, &call.arguments});
  }
  return texts;
}

Status CheckMessages(const std::vector<ChatMessage>& messages) {
  if (messages.empty()) {
    return Status::InvalidArgument("a chat needs at least one message, not 0");
  }
  for (const ChatMessage& message : messages) {
    if (std::find(kRoles.begin(), kRoles.end(), message.role) == kRoles.end()) {
      return Status::InvalidArgument(
          "a role must be system, developer, user, assistant or tool, not '" +
          ToValidUtf8(message.role) + "'");
    }
    for (const std::string* text : TextsOf(message)) {
      if (IsValidUtf8(*text)) continue;
      return Status::InvalidArgument(
          "the content of a message must be UTF-8 text; that of role " + message.role +
          " is well-formed for its first bytes only: " + std::to_string(ValidUtf8Prefix(*text)));
    }
  }
  return Status::Ok();
}

// Appends a part, joined to the last one where trust is equal.
void Append(std::string_view text, bool trusted, std::vector<TextPart>* parts) {
  if (text.empty()) return;
  if (!parts->empty() && parts->back().trusted == trusted) {
    parts->back().text += text;
  } else {
    parts->push_back({std::string(text), trusted});
  }
}

// Returns `text` with `seal` at each of `points`, which ascend.
std::string WithSeals(const std::string& text, const std::vector<std::size_t>& points,
                      const std::string& seal) {
  std::string sealed;
  sealed.reserve(text.size() + points.size() * seal.size());
  std::size_t begin = 0;
  for (const std::size_t point : points) {
    sealed.append(text, begin, point - begin).append(seal);
    begin = point;
  }
  return sealed.append(text, begin);
}

// Removes seals; the byte before each is untrusted, so that the text around it forms no token.
std::vector<TextPart> WithoutSeals(const std::vector<TextPart>& sealed, const std::string& seal) {
  std::vector<TextPart> parts;
  for (const TextPart& part : sealed) {
    std::string_view rest = part.text;
    for (std::size_t at = rest.find(seal); at != std::string_view::npos; at = rest.find(seal)) {
      const std::size_t broken = at > 0 ? at - 1 : 0;
      Append(rest.substr(0, broken), part.trusted, &parts);
      Append(rest.substr(broken, at - broken), false, &parts);
      rest.remove_prefix(at + seal.size());
    }
    Append(rest, part.trusted, &parts);
  }
  return parts;
}

}  // namespace

struct ChatTemplate::Impl {
  const Vocabulary* vocabulary = nullptr;
  std::string source;
  std::unique_ptr<JinjaEngine> engine;
  std::vector<TokenId> markers;
  bool knows_developer = false;

  // Formats are found out when they are first asked for: it takes some dozens of renderings.
  struct LazyFormats {
    std::once_flag made;
    std::unique_ptr<ReplyFormats> formats;
    Status status;
  };
  mutable LazyFormats own;
  mutable LazyFormats fallback;
  Result<const ReplyFormats*> FormatsOf(LazyFormats* lazy, const std::string& text) const;

  // Maps roles and tools to what the template knows; `tools` is empty where they became text.
  Result<std::vector<ChatMessage>> Adapt(const std::vector<ChatMessage>& messages,
                                         std::span<const ChatTool>* tools) const;
  // Returns what the template puts at the end of a prompt for the reply to begin with.
  Result<std::string> ReplyStart(const std::vector<ChatMessage>& adapted,
                                 const ReplyWishes& wishes) const;
  // Returns the control and marker tokens that the parts form.
  Result<std::vector<TokenId>> Structure(const std::vector<TextPart>& parts) const;
  Result<std::vector<TokenId>> Encode(const std::vector<TextPart>& parts, bool continues) const {
    return vocabulary->Encode(parts, {true, continues, markers});
  }
};

Result<std::vector<ChatMessage>> ChatTemplate::Impl::Adapt(const std::vector<ChatMessage>& messages,
                                                           std::span<const ChatTool>* tools) const {
  std::vector<ChatMessage> adapted = messages;
  const bool uses_tools =
      !tools->empty() || std::any_of(messages.begin(), messages.end(), [](const ChatMessage& one) {
        return !one.tool_calls.empty();
      });
  if (uses_tools && !engine->supports_tools()) {
    adapted = WithToolsAsText(std::move(adapted), *tools);
    *tools = {};
  }
  for (ChatMessage& message : adapted) {
    if (message.role == "developer" && !knows_developer) message.role = "system";
  }
  if (adapted.front().role != "system" || engine->supports_system_role()) return adapted;
  if (adapted.size() < 2) {
    return Status::InvalidArgument(
        "the model's chat template has no system role; a system message needs a message after it "
        "to go in front of, and there are only " +
        std::to_string(adapted.size()));
  }
  adapted[1].content = adapted[0].content + "\n" + adapted[1].content;
  adapted.erase(adapted.begin());
  return adapted;
}

Result<std::string> ChatTemplate::Impl::ReplyStart(const std::vector<ChatMessage>& adapted,
                                                   const ReplyWishes& wishes) const {
  std::array<std::string, 2> texts;  // without it and with it
  for (const bool starts : {false, true}) {
    const TemplateInput input = {.add_generation_prompt = starts,
                                 .enable_thinking = wishes.enable_thinking,
                                 .tools = wishes.tools};
    SKV_ASSIGN_OR_RETURN(const std::vector<TextPart> parts, engine->Run(adapted, input));
    for (const TextPart& part : parts) texts[starts ? 1 : 0] += part.text;
  }
  const auto [end, begin] =
      std::mismatch(texts[0].begin(), texts[0].end(), texts[1].begin(), texts[1].end());
  return std::string(begin, texts[1].end());
}

Result<std::vector<TokenId>> ChatTemplate::Impl::Structure(
    const std::vector<TextPart>& parts) const {
  SKV_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, Encode(parts, /*continues=*/false));
  std::erase_if(tokens, [&](TokenId token) {
    return !vocabulary->IsControl(token) &&
           std::find(markers.begin(), markers.end(), token) == markers.end();
  });
  return tokens;
}

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::FromVocabulary(const Vocabulary& vocabulary) {
  if (vocabulary.chat_template_source().empty()) {
    return Status::Unsupported(
        "the model carries no chat template, so messages cannot be rendered; use a raw prompt");
  }
  auto result = FromSource(vocabulary, vocabulary.chat_template_source());
  if (!result.ok()) return Status::DataLoss("in the model file, " + result.status().message());
  return result;
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::FromSource(const Vocabulary& vocabulary,
                                                               const std::string& source) {
  auto impl = std::make_unique<Impl>();
  impl->vocabulary = &vocabulary;
  impl->source = source;
  SKV_ASSIGN_OR_RETURN(impl->engine,
                       JinjaEngine::Parse(source, vocabulary.TokenToPiece(vocabulary.bos(), true),
                                          vocabulary.TokenToPiece(vocabulary.eos(), true)));
  impl->markers = vocabulary.MarkersWithin(source);
  impl->knows_developer = source.find("developer") != std::string::npos;
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<std::vector<TextPart>> ChatTemplate::Render(const std::vector<ChatMessage>& messages,
                                                   const RenderOptions& options) const {
  SKV_RETURN_IF_ERROR(CheckMessages(messages));
  std::span<const ChatTool> tools = options.tools;
  SKV_ASSIGN_OR_RETURN(std::vector<ChatMessage> adapted, impl_->Adapt(messages, &tools));
  const auto points_in = [&](const std::string& text) {
    return impl_->vocabulary->BreakingPoints(text, impl_->markers);
  };
  bool needs_seals = false;
  TemplateInput input = {.add_generation_prompt = options.add_generation_prompt,
                         .enable_thinking = options.enable_thinking,
                         .tools = tools,
                         .edit = [&](const std::string& text) {
                           needs_seals = needs_seals || !points_in(text).empty();
                           return text;
                         }};
  SKV_ASSIGN_OR_RETURN(std::vector<TextPart> parts, impl_->engine->Run(adapted, input));
  if (!needs_seals) return parts;
  const std::string seal = MakeSeal();
  input.edit = [&](const std::string& text) { return WithSeals(text, points_in(text), seal); };
  SKV_ASSIGN_OR_RETURN(std::vector<TextPart> sealed, impl_->engine->Run(adapted, input));
  sealed = WithoutSeals(sealed, seal);
  SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> structure, impl_->Structure(parts));
  SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> safe_structure, impl_->Structure(sealed));
  return structure == safe_structure ? std::move(parts) : std::move(sealed);
}

Result<const ReplyFormats*> ChatTemplate::Impl::FormatsOf(LazyFormats* lazy,
                                                          const std::string& text) const {
  std::call_once(lazy->made, [&] {
    auto formats = ReplyFormats::FromSource(*vocabulary, text);
    if (formats.ok()) {
      lazy->formats = std::move(formats).value();
    } else {
      lazy->status = formats.status();
    }
  });
  SKV_RETURN_IF_ERROR(lazy->status);
  return lazy->formats.get();
}

Result<std::shared_ptr<const ReplyFormat>> ChatTemplate::Format(
    const std::vector<ChatMessage>& messages, const ReplyWishes& wishes) const {
  const bool may_call = !wishes.tools.empty() && wishes.choice != ToolChoice::kNone;
  if (may_call && !impl_->engine->supports_tools()) {
    // How a call is written does not depend on what was said before.
    SKV_ASSIGN_OR_RETURN(const ReplyFormats* formats,
                         impl_->FormatsOf(&impl_->fallback, ToolFallbackTemplate()));
    return formats->Make({{"user", "Hello"}}, /*reply_start=*/"", wishes);
  }
  const Result<const ReplyFormats*> formats = impl_->FormatsOf(&impl_->own, impl_->source);
  const bool marks_reasoning =
      formats.ok() && wishes.split_reasoning && (*formats)->marks_reasoning();
  if (!may_call && !marks_reasoning) return std::shared_ptr<const ReplyFormat>();
  SKV_RETURN_IF_ERROR(formats.status());
  std::span<const ChatTool> tools = wishes.tools;
  SKV_ASSIGN_OR_RETURN(const std::vector<ChatMessage> adapted, impl_->Adapt(messages, &tools));
  SKV_ASSIGN_OR_RETURN(const std::string start, impl_->ReplyStart(adapted, wishes));
  return (*formats)->Make(adapted, start, wishes);
}

bool ChatTemplate::knows_tools() const { return impl_->engine->supports_tools(); }

Result<std::vector<TokenId>> ChatTemplate::Tokens(const std::vector<ChatMessage>& messages,
                                                  const RenderOptions& options) const {
  SKV_ASSIGN_OR_RETURN(const std::vector<TextPart> parts, Render(messages, options));
  return impl_->Encode(parts, /*continues=*/false);
}

Result<std::vector<TokenId>> ChatTemplate::Encode(const std::vector<TextPart>& parts,
                                                  bool continues) const {
  return impl_->Encode(parts, continues);
}

const std::vector<TokenId>& ChatTemplate::marker_tokens() const { return impl_->markers; }
const Vocabulary& ChatTemplate::vocabulary() const { return *impl_->vocabulary; }

}  // namespace swiftkv
