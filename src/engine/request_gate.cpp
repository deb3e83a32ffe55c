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
  gate.limit_bytes_ = parts.cache->Balance().limit_bytes;
  gate.format_ = parts.format;
  SKV_ASSIGN_OR_RETURN(gate.grade_, GradeOf(parts.format));
  gate.ceiling_ = limits.ceiling.value_or(gate.grade_);
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

Result<StorageChoice> RequestGate::Choose(const std::optional<KvFormat>& format,
                                          const std::optional<Quality>& quality) const {
  StorageChoice choice = {.format = format.value_or(format_), .allowed = grade_};
  if (format) {
    SKV_ASSIGN_OR_RETURN(const Quality own, GradeOf(*format));
    choice.allowed = Worse(choice.allowed, own);
  }
  if (quality) choice.allowed = *quality;
  if (!Serves(choice.allowed, ceiling_)) choice.allowed = ceiling_;
  if (!format && !Serves(grade_, choice.allowed)) choice.format = KvFormat{};
  SKV_ASSIGN_OR_RETURN(const Quality grade, GradeOf(choice.format));
  if (!Serves(grade, choice.allowed)) {
    return Status::InvalidArgument(
        fmt::format("the request reads nothing worse than {}, a KV format must have that grade; {} "
                    "has {}",
                    QualityName(choice.allowed), NameOf(choice.format), QualityName(grade)));
  }
  return choice;
}

Status RequestGate::SetFormat(ActiveRequest* request) const {
  SKV_ASSIGN_OR_RETURN(const StorageChoice choice,
                       Choose(request->asked.format, request->asked.quality));
  request->format = choice.format;
  request->scope.allowed = choice.allowed;
  SKV_ASSIGN_OR_RETURN(request->footprint,
                       KvFootprint::Make(layers_, request->format.key, request->format.value));
  return Status::Ok();
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

// Counts pages alone: a prompt that passes may still lack room for metadata, which shows once it is
// alone in the cache.
Status RequestGate::CheckFits(const ActiveRequest& request) const {
  const auto least = static_cast<std::int64_t>(request.prompt_tokens()) + 1;
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
  return Status::Ok();
}

Result<std::unique_ptr<ActiveRequest>> RequestGate::Check(EngineRequest asked) const {
  auto request = std::make_unique<ActiveRequest>();
  request->submitted = ActiveRequest::Clock::now();
  SKV_RETURN_IF_ERROR(CheckPrompt(asked));
  SKV_RETURN_IF_ERROR(CheckNumbers(asked));
  request->asked = std::move(asked);
  SKV_RETURN_IF_ERROR(SetFormat(request.get()));
  Reserve(request.get());
  request->scope.tenant_salt = request->asked.tenant_salt;
  request->scope.request_salt = request->asked.request_salt;
  request->scope.share = request->asked.share_prefix;
  SKV_RETURN_IF_ERROR(CheckFits(*request));
  SKV_RETURN_IF_ERROR(MakeChoices(request.get()));
  request->usage.prompt_tokens = static_cast<std::int64_t>(request->prompt_tokens());
  request->stream = std::make_shared<StreamBuffer>(
      static_cast<std::size_t>(request->asked.buffered_events), request->asked.on_ready);
  return request;
}

}  // namespace swiftkv
