// SPDX-License-Identifier: Apache-2.0
// Implements the checks of a request, each with one sentence.
#include "engine/request_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/byte_size.h"
#include "base/status_macros.h"
#include "formats/codec_table.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {
namespace {

constexpr int kMostLogprobs = 100;

Result<Quality> GradeOf(const KvFormat& format) {
  PageFormat pair;
  SKV_ASSIGN_OR_RETURN(pair.key, FindCodec(format.key));
  SKV_ASSIGN_OR_RETURN(pair.value, FindCodec(format.value));
  return PageFormatQuality(pair);
}

std::string NameOf(const KvFormat& format) {
  return format.key == format.value ? format.key : format.key + "/" + format.value;
}

Status CheckRange(const char* name, int value, int least, int most) {
  if (value >= least && value <= most) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} must lie in [{}, {}], not: {}", name, least, most, value));
}

}  // namespace

Result<RequestGate> RequestGate::Create(const EngineParts& parts, const EngineLimits& limits) {
  SKV_RETURN_IF_ERROR(CheckRange("max_sequences", limits.max_sequences, 1, 1 << 16));
  SKV_RETURN_IF_ERROR(CheckRange("max_queue", limits.max_queue, 1, 1 << 20));
  RequestGate gate;
  gate.vocabulary_ = parts.vocabulary;
  gate.context_ = parts.model->context();
  gate.limits_ = limits;
  gate.layers_ = parts.model->layer_shapes();
  gate.decoder_ = &parts.model->spec();
  gate.figures_ = parts.figures;
  gate.limit_bytes_ = parts.cache->Balance().limit_bytes;
  gate.format_ = parts.format;
  SKV_ASSIGN_OR_RETURN(gate.grade_, GradeOf(parts.format));
  gate.ceiling_ = limits.ceiling.value_or(limits.forgetting ? Quality::kAny : gate.grade_);
  if (limits.forgetting) SKV_RETURN_IF_ERROR(gate.Choose({.quality = Quality::kAny}).status());
  return gate;
}

Status RequestGate::CheckPrompt(const EngineRequest& request) const {
  if (request.prompt.empty()) {
    return Status::InvalidArgument("the prompt is empty; at least one token is needed, got 0");
  }
  if (request.prompt.size() >= static_cast<std::size_t>(context_)) {
    return Status::InvalidArgument(
        fmt::format("the prompt does not fit into the context of {} tokens, which must hold it and "
                    "one token of the reply; the prompt has {}",
                    context_, request.prompt.size()));
  }
  for (const TokenId token : request.prompt) {
    if (!vocabulary_->Contains(token)) {
      return Status::InvalidArgument(
          fmt::format("a prompt token must be in [0, {}), got {}", vocabulary_->size(), token));
    }
  }
  return Status::Ok();
}

Status RequestGate::CheckNumbers(const EngineRequest& request) const {
  constexpr int kAny = 1 << 30;
  const bool reserves = limits_.reservation != SlotReservation::kNone;
  const int most_choices = reserves ? 1 : limits_.max_sequences;
  SKV_RETURN_IF_ERROR(CheckRange("choices", request.choices, 1, most_choices));
  SKV_RETURN_IF_ERROR(CheckRange("max_tokens", request.max_tokens, -1, kAny));
  SKV_RETURN_IF_ERROR(CheckRange("logprobs", request.logprobs, -1, kMostLogprobs));
  SKV_RETURN_IF_ERROR(CheckRange("prompt_logprobs", request.prompt_logprobs, -1, kMostLogprobs));
  return CheckRange("buffered_events", request.buffered_events, 0, kAny);
}

Result<Quality> RequestGate::WishedGrade(const StorageWish& wish) const {
  Quality grade = grade_;
  if (wish.format) {
    SKV_ASSIGN_OR_RETURN(const Quality own, GradeOf(*wish.format));
    grade = Worse(grade, own);
  }
  const bool forgets =
      wish.forgetting ? wish.forgetting->policy != kNoPolicy : limits_.forgetting.has_value();
  if (forgets) grade = Quality::kAny;
  return wish.quality.value_or(grade);
}

// Without a word of its own a request forgets what the engine does, as far as its level allows.
Result<std::shared_ptr<const ForgettingRule>> RequestGate::ChooseForgetting(
    const StorageWish& wish, const StorageChoice& choice) const {
  const bool allowed = choice.allowed == Quality::kAny;
  if (!wish.forgetting && (!limits_.forgetting || !allowed)) {
    return std::shared_ptr<const ForgettingRule>();
  }
  const Forgetting asked = wish.forgetting.value_or(Forgetting{});
  Forgetting complete = CompleteForgetting(asked, limits_.forgetting);
  if (choice.format != format_) complete.kept_as = asked.kept_as;
  SKV_ASSIGN_OR_RETURN(
      std::shared_ptr<const ForgettingRule> rule,
      MakeForgettingRule(
          complete,
          {.layers = layers_, .format = choice.format, .decoder = decoder_, .figures = figures_}));
  if (rule == nullptr || allowed) return rule;
  return Status::InvalidArgument(fmt::format(
      "what is forgotten is lost to a request that reads nothing worse than {}; policy {} needs "
      "quality any{}",
      QualityName(choice.allowed), rule->name,
      ceiling_ == Quality::kAny
          ? std::string()
          : fmt::format(", which the engine's ceiling forbids: {}", QualityName(ceiling_))));
}

Result<StorageChoice> RequestGate::Choose(const StorageWish& wish) const {
  StorageChoice choice = {.format = wish.format.value_or(format_)};
  SKV_ASSIGN_OR_RETURN(choice.allowed, WishedGrade(wish));
  if (!Serves(choice.allowed, ceiling_)) choice.allowed = ceiling_;
  if (!wish.format && !Serves(grade_, choice.allowed)) choice.format = KvFormat{};
  SKV_ASSIGN_OR_RETURN(const Quality grade, GradeOf(choice.format));
  if (!Serves(grade, choice.allowed)) {
    return Status::InvalidArgument(
        fmt::format("the request reads nothing worse than {}, a KV format must have that grade; {} "
                    "has {}",
                    QualityName(choice.allowed), NameOf(choice.format), QualityName(grade)));
  }
  SKV_ASSIGN_OR_RETURN(choice.forgetting, ChooseForgetting(wish, choice));
  return choice;
}

Status RequestGate::SetStorage(ActiveRequest* request) const {
  SKV_ASSIGN_OR_RETURN(const StorageChoice choice,
                       Choose({.format = request->asked.format,
                               .quality = request->asked.quality,
                               .forgetting = request->asked.forgetting}));
  request->format = choice.format;
  request->scope.allowed = choice.allowed;
  request->forgetting = choice.forgetting;
  if (choice.forgetting != nullptr) {
    request->usage.kv.policy = choice.forgetting->name;
    request->usage.kv.kept_as = choice.forgetting->kept_as;
  }
  SKV_ASSIGN_OR_RETURN(request->footprint,
                       KvFootprint::Make(layers_, request->format.key, request->format.value));
  return Status::Ok();
}

// A prefix that is compressed for others is nothing but its whole blocks.
Status RequestGate::CheckForgetting(ActiveRequest* request) const {
  const bool reserves = limits_.reservation != SlotReservation::kNone;
  if (reserves && request->forgetting != nullptr) {
    return Status::InvalidArgument(
        "a request with reserved slots keeps them all; leave out the policy: " +
        request->forgetting->name);
  }
  if (!request->only_compresses()) return Status::Ok();
  if (request->forgetting == nullptr || !request->forgetting->query_agnostic()) {
    return Status::InvalidArgument(fmt::format(
        "a prefix is compressed for others by a policy that does not look at the question, not by: "
        "{}",
        request->forgetting == nullptr ? kNoPolicy : request->forgetting->name));
  }
  if (!request->asked.share_prefix || request->asked.prompt_logprobs >= 0) {
    return Status::InvalidArgument(
        "a prefix that is compressed for others is shared and tells nothing of its tokens; "
        "share_prefix and prompt_logprobs forbid it");
  }
  std::vector<TokenId>& prompt = request->asked.prompt;
  prompt.resize(prompt.size() / kPageTokens * kPageTokens);
  const auto shortest = static_cast<std::size_t>(request->forgetting->budget.shortest_length);
  if (!prompt.empty() && prompt.size() >= shortest) {
    request->asked.choices = 1;
    request->asked.max_tokens = 0;
    return Status::Ok();
  }
  return Status::InvalidArgument(
      fmt::format("a prefix of fewer than {} tokens is not compressed; its whole blocks have {}",
                  shortest, prompt.size()));
}

void RequestGate::Reserve(ActiveRequest* request) const {
  if (limits_.reservation == SlotReservation::kNone) return;
  request->asked.share_prefix = false;
  const auto prompt = static_cast<std::int64_t>(request->prompt_tokens());
  const int reply = request->asked.max_tokens;
  const bool bounded = limits_.reservation != SlotReservation::kContext && reply >= 0;
  std::int64_t slots = bounded ? prompt + std::max(reply, 1) : context_;
  if (limits_.reservation == SlotReservation::kPowerOfTwo) {
    slots = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(slots)));
  }
  request->reserved_tokens = std::min<std::int64_t>(slots, context_);
}

// The tokens that are held at once, at least.
std::int64_t RequestGate::LeastHeld(const ActiveRequest& request) {
  const auto prompt = static_cast<std::int64_t>(request.prompt_tokens());
  if (request.forgetting == nullptr) return prompt + 1;
  return request.forgetting->schedule.MostHeld(prompt, prompt + 1);
}

// Where the pool cannot hold what is kept beside the dense blocks, nobody else shall find these, so
// that each makes room as it is compacted.
void RequestGate::ForgetInPlace(ActiveRequest* request) const {
  if (request->forgetting == nullptr || request->only_compresses()) return;
  const CompactionSchedule& schedule = request->forgetting->schedule;
  const std::int64_t at =
      schedule.NextAfter(static_cast<std::int64_t>(request->prompt_tokens()), 0);
  const std::uint64_t both = request->footprint.PageBytes(LeastHeld(*request)) +
                             request->footprint.OwnBytes(0, schedule.HeldAfter(at));
  if (at > 0 && both > limit_bytes_ - limit_bytes_ / 8) request->scope.share = false;
}

// Counts pages alone: a prompt that passes may still lack room for metadata, which shows once it is
// alone in the cache.
Status RequestGate::CheckFits(const ActiveRequest& request) const {
  const std::int64_t least = LeastHeld(request);
  const std::int64_t tokens = std::max(least, request.reserved_tokens);
  const std::uint64_t needed = request.reserved_tokens > 0 ? request.footprint.ReservedBytes(tokens)
                                                           : request.footprint.PageBytes(tokens);
  if (needed <= limit_bytes_) return Status::Ok();
  if (tokens > least) {
    return Status::InvalidArgument(fmt::format(
        "{} slots are reserved for the request, which need {} of KV memory in {}; the limit is {}, "
        "room for about {} tokens",
        tokens, FormatByteSize(needed), NameOf(request.format), FormatByteSize(limit_bytes_),
        request.footprint.TokensWithin(limit_bytes_)));
  }
  return Status::InvalidArgument(fmt::format(
      "the prompt and one token of the reply, {} tokens, need {} of KV memory in {}; the "
      "limit is {}, room for about {} tokens",
      tokens, FormatByteSize(needed), NameOf(request.format), FormatByteSize(limit_bytes_),
      request.footprint.TokensWithin(limit_bytes_)));
}

Status RequestGate::MakeChoices(ActiveRequest* request) const {
  SamplerOptions options = request->asked.sampling;
  request->choices.resize(static_cast<std::size_t>(request->asked.choices));
  for (ActiveChoice& choice : request->choices) {
    choice.index = static_cast<int>(&choice - request->choices.data());
    SKV_ASSIGN_OR_RETURN(choice.sampler, Sampler::Create(*vocabulary_, options));
    choice.sampler->AcceptPrompt(request->asked.prompt);
    choice.text.emplace(*vocabulary_);
    if (choice.index == 0) request->usage.seed = choice.sampler->seed();
    options.seed = request->usage.seed + static_cast<std::uint64_t>(choice.index) + 1;
  }
  if (request->tells_prompt()) {
    request->prompt_text.emplace(*vocabulary_);
    request->usage.prefix_end = PrefixEnd::kNotShared;
  }
  request->choices[0].phase = ChoicePhase::kWaiting;
  request->choices[0].tokens = request->asked.prompt;
  // Never computed: whoever looks for a prefix has one token more.
  if (request->only_compresses())
    request->choices[0].tokens.push_back(request->asked.prompt.back());
  return Status::Ok();
}

Result<std::unique_ptr<ActiveRequest>> RequestGate::Check(EngineRequest asked) const {
  auto request = std::make_unique<ActiveRequest>();
  request->submitted = ActiveRequest::Clock::now();
  SKV_RETURN_IF_ERROR(CheckPrompt(asked));
  SKV_RETURN_IF_ERROR(CheckNumbers(asked));
  request->asked = std::move(asked);
  SKV_RETURN_IF_ERROR(SetStorage(request.get()));
  SKV_RETURN_IF_ERROR(CheckForgetting(request.get()));
  Reserve(request.get());
  request->scope.tenant_salt = request->asked.tenant_salt;
  request->scope.request_salt = request->asked.request_salt;
  request->scope.share = request->asked.share_prefix;
  SKV_RETURN_IF_ERROR(CheckFits(*request));
  ForgetInPlace(request.get());
  SKV_RETURN_IF_ERROR(MakeChoices(request.get()));
  request->usage.prompt_tokens = static_cast<std::int64_t>(request->prompt_tokens());
  request->stream = std::make_shared<StreamBuffer>(
      static_cast<std::size_t>(request->asked.buffered_events), request->asked.on_ready);
  return request;
}

}  // namespace swiftkv
