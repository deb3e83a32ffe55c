// SPDX-License-Identifier: Apache-2.0
// Loads libllama's vocabulary without weights and encodes prompts that are trusted in parts only.
#include "model/vocabulary.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "llama.h"
#include "model/llama_guard.h"
#include "model/special_tokens.h"
#include "model/turn_end.h"

namespace swiftkv {
namespace {

constexpr std::string_view kSentencePieceSpace = "\xE2\x96\x81";
constexpr std::size_t kMaxPromptBytes = std::numeric_limits<std::int32_t>::max() / 2;

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
using ModelPointer = std::unique_ptr<llama_model, ModelDeleter>;

// Tokenises text without control tokens; may throw what the library throws.
std::vector<TokenId> TokenizePlain(const llama_vocab* vocabulary, std::string_view text) {
  std::vector<TokenId> tokens(text.size() + 8);
  for (;;) {
    const std::int32_t count =
        llama_tokenize(vocabulary, text.data(), static_cast<std::int32_t>(text.size()),
                       tokens.data(), static_cast<std::int32_t>(tokens.size()),
                       /*add_special=*/false, /*parse_special=*/false);
    if (count == std::numeric_limits<std::int32_t>::min()) {
      throw std::length_error("the text has too many tokens");
    }
    if (count >= 0) {
      tokens.resize(static_cast<std::size_t>(count));
      return tokens;
    }
    tokens.resize(static_cast<std::size_t>(-count));
  }
}

// Says whether text gets a space put before it, as SentencePiece models want for a text's start.
bool PutsSpaceBeforeText(const llama_vocab* vocabulary) {
  try {
    const std::vector<TokenId> tokens = TokenizePlain(vocabulary, "a");
    if (tokens.empty()) return false;
    const std::string_view text = llama_vocab_get_text(vocabulary, tokens.front());
    return text.substr(0, kSentencePieceSpace.size()) == kSentencePieceSpace;
  } catch (const std::exception&) {
    return false;  // it cannot even spell "a"
  }
}

Status LoadError(const std::string& path, const std::string& reason) {
  const bool unknown = reason.find("unknown model architecture") != std::string::npos ||
                       reason.find("unknown tokenizer") != std::string::npos ||
                       reason.find("unknown pre-tokenizer") != std::string::npos;
  const std::string message = "cannot read the vocabulary (" + reason + ") of " + path;
  return unknown ? Status::Unsupported(message) : Status::DataLoss(message);
}

}  // namespace

struct Vocabulary::Impl {
  Impl(ModelPointer owned_model, const llama_vocab* vocabulary)
      : model(std::move(owned_model)),
        vocab(vocabulary),
        special(vocabulary),
        puts_space(PutsSpaceBeforeText(vocabulary)) {}

  void AddEndToken(TokenId token) {
    if (token == kNoToken) return;
    end_tokens.insert(std::lower_bound(end_tokens.begin(), end_tokens.end(), token), token);
  }

  // Tokenises plain text that follows other text.
  std::vector<TokenId> TokenizeWithoutSpace(std::string_view text) const;
  // Tokenises plain text such that no control token forms.
  void AppendPlain(std::string_view text, bool may_put_space, std::vector<TokenId>* tokens) const;

  ModelPointer model;
  const llama_vocab* vocab;
  SpecialTokens special;
  bool puts_space;
  std::string template_source;
  std::vector<TokenId> end_tokens;  // ascending
  std::vector<TokenId> suppressed;
};

std::vector<TokenId> Vocabulary::Impl::TokenizeWithoutSpace(std::string_view text) const {
  if (!puts_space) return TokenizePlain(vocab, text);
  // The library puts the space before any text; a character in front that merges with nothing takes
  // it.
  for (const std::string_view probe : {"\n", "\x01", "\t"}) {
    const std::vector<TokenId> head = TokenizePlain(vocab, probe);
    std::vector<TokenId> all = TokenizePlain(vocab, std::string(probe).append(text));
    if (all.size() >= head.size() && std::equal(head.begin(), head.end(), all.begin())) {
      all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(head.size()));
      return all;
    }
  }
  return TokenizePlain(vocab, text);
}

void Vocabulary::Impl::AppendPlain(std::string_view text, bool may_put_space,
                                   std::vector<TokenId>* tokens) const {
  // Merging pieces can arrive at the text of a control token; then the text is cut inside all of
  // them.
  std::vector<std::string_view> pieces = {text};  // still to be taken, the next one last
  while (!pieces.empty()) {
    const std::string_view piece = pieces.back();
    pieces.pop_back();
    const bool at_start = piece.data() == text.data();
    const std::vector<TokenId> plain =
        may_put_space && at_start ? TokenizePlain(vocab, piece) : TokenizeWithoutSpace(piece);
    std::string_view marker;
    for (const TokenId token : plain) {
      if (!llama_vocab_is_control(vocab, token)) continue;
      const std::string_view name = llama_vocab_get_text(vocab, token);
      if (name.size() > 1 && piece.find(name) != std::string_view::npos) marker = name;
    }
    if (marker.empty()) {
      tokens->insert(tokens->end(), plain.begin(), plain.end());
      continue;
    }
    std::string_view rest = piece;
    for (std::size_t at = rest.rfind(marker); at != std::string_view::npos;
         at = rest.rfind(marker)) {
      pieces.push_back(rest.substr(at + 1));
      rest = rest.substr(0, at + 1);
    }
    pieces.push_back(rest);
  }
}

Vocabulary::Vocabulary(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Vocabulary::~Vocabulary() = default;

Result<std::unique_ptr<Vocabulary>> Vocabulary::Load(const std::string& path) {
  if (!std::ifstream(path, std::ios::binary)) {
    return Status::NotFound("cannot open the model file (" + std::string(std::strerror(errno)) +
                            "): " + path);
  }
  LlamaGuard guard;
  try {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    ModelPointer model(llama_model_load_from_file(path.c_str(), params));
    if (model == nullptr) return LoadError(path, guard.Reason("the file is damaged"));
    const llama_vocab* vocab = llama_model_get_vocab(model.get());
    if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE || llama_vocab_n_tokens(vocab) <= 0) {
      return Status::Unsupported("the model carries no vocabulary, so text cannot be used with " +
                                 path);
    }
    auto impl = std::make_unique<Impl>(std::move(model), vocab);
    const char* source = llama_model_chat_template(impl->model.get(), nullptr);
    if (source != nullptr) impl->template_source = source;
    for (TokenId token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
      if (llama_vocab_is_eog(vocab, token)) impl->end_tokens.push_back(token);
    }
    std::int32_t count = 0;
    const llama_token* suppressed = llama_vocab_get_suppress_tokens(vocab, &count);
    impl->suppressed.assign(suppressed, suppressed + count);
    std::unique_ptr<Vocabulary> loaded(new Vocabulary(std::move(impl)));
    if (const TokenId turn_end = FindTurnEnd(*loaded); !loaded->IsEndOfGeneration(turn_end)) {
      loaded->impl_->AddEndToken(turn_end);
    }
    return loaded;
  } catch (const std::exception& error) {
    return LoadError(path, guard.Reason(error.what()));
  }
}

int Vocabulary::size() const { return llama_vocab_n_tokens(impl_->vocab); }
TokenId Vocabulary::bos() const { return llama_vocab_bos(impl_->vocab); }
TokenId Vocabulary::eos() const { return llama_vocab_eos(impl_->vocab); }
bool Vocabulary::adds_bos() const {
  return llama_vocab_get_add_bos(impl_->vocab) && bos() != kNoToken;
}
const std::vector<TokenId>& Vocabulary::end_of_generation_tokens() const {
  return impl_->end_tokens;
}
bool Vocabulary::IsEndOfGeneration(TokenId token) const {
  return std::binary_search(impl_->end_tokens.begin(), impl_->end_tokens.end(), token);
}
bool Vocabulary::IsControl(TokenId token) const {
  return Contains(token) && llama_vocab_is_control(impl_->vocab, token);
}
bool Vocabulary::IsUserDefined(TokenId token) const {
  return Contains(token) &&
         (llama_vocab_get_attr(impl_->vocab, token) & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0;
}
const std::vector<TokenId>& Vocabulary::suppressed_tokens() const { return impl_->suppressed; }
const std::string& Vocabulary::chat_template_source() const { return impl_->template_source; }
const llama_vocab* Vocabulary::handle() const { return impl_->vocab; }

std::string Vocabulary::TokenToPiece(TokenId token, bool show_control) const {
  if (!Contains(token) || (!show_control && IsEndOfGeneration(token))) return {};
  std::string piece(32, '\0');
  for (;;) {
    const std::int32_t size =
        llama_token_to_piece(impl_->vocab, token, piece.data(),
                             static_cast<std::int32_t>(piece.size()), /*lstrip=*/0, show_control);
    if (size >= 0) {
      piece.resize(static_cast<std::size_t>(size));
      return piece;
    }
    piece.resize(static_cast<std::size_t>(-size));
  }
}

TokenId Vocabulary::FindSpecialToken(std::string_view text) const {
  return impl_->special.Find(text);
}

std::vector<TokenId> Vocabulary::MarkersWithin(std::string_view template_source) const {
  return impl_->special.MarkersWithin(template_source);
}

std::vector<std::size_t> Vocabulary::BreakingPoints(std::string_view text,
                                                    std::span<const TokenId> forbidden) const {
  return impl_->special.BreakingPoints(text, forbidden);
}

Result<std::vector<TokenId>> Vocabulary::EncodePrompt(std::string_view text) const {
  const TextPart part{std::string(text), /*trusted=*/true};
  SKV_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, Encode({&part, 1}, {}));
  if (tokens.empty()) {
    return Status::InvalidArgument(
        "the prompt is empty and the model starts texts without a BOS token; give at least one "
        "character, not: ''");
  }
  return tokens;
}

Result<std::vector<TokenId>> Vocabulary::EncodeText(std::string_view text) const {
  const TextPart part{std::string(text), /*trusted=*/false};
  return Encode({&part, 1}, {.add_bos = false, .continues = false, .forbidden = {}});
}

Result<std::vector<TokenId>> Vocabulary::Encode(std::span<const TextPart> parts,
                                                const EncodeOptions& options) const {
  std::string prompt;
  std::vector<TrustedRange> trusted;
  for (const TextPart& part : parts) {
    const TrustedRange range{prompt.size(), prompt.size() + part.text.size()};
    prompt += part.text;
    if (!part.trusted) continue;
    if (!trusted.empty() && trusted.back().end == range.begin) {
      trusted.back().end = range.end;
    } else {
      trusted.push_back(range);
    }
  }
  if (prompt.size() > kMaxPromptBytes) {
    return Status::InvalidArgument("a prompt may have at most " + std::to_string(kMaxPromptBytes) +
                                   " bytes, not " + std::to_string(prompt.size()));
  }
  if (!IsValidUtf8(prompt)) {
    return Status::InvalidArgument("the prompt must be UTF-8 text; its well-formed start has " +
                                   std::to_string(ValidUtf8Prefix(prompt)) + " bytes of " +
                                   std::to_string(prompt.size()));
  }
  const LlamaGuard guard;
  try {
    std::vector<TokenId> tokens;
    bool first = true;
    for (const PromptFragment& fragment :
         impl_->special.Split(prompt, trusted, options.forbidden)) {
      const bool follows_text = first && options.continues;
      first = false;
      if (fragment.token != kNoToken) {
        tokens.push_back(fragment.token);
        continue;
      }
      std::size_t begin = fragment.begin;
      for (const std::size_t cut : fragment.cuts) {
        impl_->AppendPlain(std::string_view(prompt).substr(begin, cut - begin),
                           begin == fragment.begin && !follows_text, &tokens);
        begin = cut;
      }
      impl_->AppendPlain(std::string_view(prompt).substr(begin, fragment.end - begin),
                         begin == fragment.begin && !follows_text, &tokens);
    }
    const bool wants_bos = options.add_bos && !options.continues && adds_bos();
    if (wants_bos && (tokens.empty() || tokens.front() != bos())) {
      tokens.insert(tokens.begin(), bos());
    }
    return tokens;
  } catch (const std::exception& error) {
    return Status::InvalidArgument("the model's vocabulary cannot spell the prompt: " +
                                   std::string(error.what()));
  }
}

}  // namespace swiftkv
