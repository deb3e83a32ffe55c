// SPDX-License-Identifier: Apache-2.0
// Reads sampling, stopping and cache fields with the defaults of the OpenAI API.
#include "server/sampling_fields.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "engine/engine_options.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxStopTokens = 1024;

// Fields whose presence would change the reply, and that nothing here can honour.
constexpr std::array<const char*, 18> kUnserved = {"suffix",
                                                   "functions",
                                                   "function_call",
                                                   "audio",
                                                   "prediction",
                                                   "prompt_logprobs",
                                                   "min_tokens",
                                                   "use_beam_search",
                                                   "length_penalty",
                                                   "guided_json",
                                                   "guided_regex",
                                                   "guided_choice",
                                                   "guided_grammar",
                                                   "bad_words",
                                                   "prompt_embeds",
                                                   "logits_processors",
                                                   "allowed_token_ids",
                                                   "web_search_options"};

bool IsOff(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string() || value.is_array() || value.is_object()) return value.empty();
  return value.is_null();
}

std::optional<std::int32_t> ParseTokenKey(const std::string& key, int vocabulary_size) {
  std::int32_t token = -1;
  const char* end = key.data() + key.size();
  const auto [rest, error] = std::from_chars(key.data(), end, token);
  if (error != std::errc() || rest != end || token < 0 || token >= vocabulary_size) {
    return std::nullopt;
  }
  return token;
}

void ReadLogitBias(int vocabulary_size, FieldReader* fields, std::vector<LogitBias>* biases) {
  const Json* field = fields->Find("logit_bias");
  if (field == nullptr) return;
  if (!field->is_object() || field->size() > kMaxLogitBiases) {
    return fields->Fail("logit_bias",
                        fmt::format("must be an object of at most {} token ids, not: {}",
                                    kMaxLogitBiases, Shown(*field)));
  }
  for (const auto& [key, value] : field->items()) {
    const std::optional<std::int32_t> token = ParseTokenKey(key, vocabulary_size);
    if (!token) {
      return fields->Fail("logit_bias",
                          fmt::format("must have token ids in [0, {}) as keys, not: {}",
                                      vocabulary_size, Shown(Json(key))));
    }
    const bool fits =
        value.is_number() && value.get<double>() >= -100 && value.get<double>() <= 100;
    if (!fits) {
      return fields->Fail("logit_bias",
                          "must have numbers in [-100, 100] as values, not: " + Shown(value));
    }
    biases->push_back({.token = *token, .bias = value.get<float>()});
  }
}

std::optional<Quality> ParseQuality(const std::string& text) {
  for (const Quality quality : {Quality::kExact, Quality::kNear, Quality::kAny}) {
    if (text == QualityName(quality)) return quality;
  }
  return std::nullopt;
}

// What values may be is the engine's to say.
void ReadForgetting(FieldReader* fields, EngineRequest* request) {
  Forgetting forgetting;
  fields->String("kv_policy", &forgetting.policy);
  if (const Json* ratio = fields->Find("kv_ratio")) {
    if (!ratio->is_number()) {
      return fields->Fail("kv_ratio", "must be a number from 0 to below 1, not: " + Shown(*ratio));
    }
    forgetting.ratio = ratio->get<double>();
  }
  if (const Json* budget = fields->Find("kv_budget")) {
    const bool is_count = budget->is_number_unsigned();
    if (!is_count && (!budget->is_string() || budget->empty())) {
      return fields->Fail(
          "kv_budget",
          "must be a number of tokens or a text like 4096tokens or 64MiB, not: " + Shown(*budget));
    }
    forgetting.budget = is_count ? budget->dump() : budget->get<std::string>();
    if (forgetting.budget.empty()) return fields->Fail("kv_budget", "may not be an empty text");
  }
  fields->String("kv_kept_as", &forgetting.kept_as);
  const bool says_nothing = forgetting.policy.empty() && !forgetting.ratio &&
                            forgetting.budget.empty() && forgetting.kept_as.empty();
  if (!says_nothing) request->forgetting = std::move(forgetting);
}

}  // namespace

ApiError UnknownModel(const ServedModel& model, const std::string& name) {
  return {
      .http_status = 404,
      .message = fmt::format("the model served here is {}, not: {}", model.name, Shown(Json(name))),
      .param = "model",
      .code = "model_not_found"};
}

void CheckModel(const ServedModel& model, FieldReader* fields) {
  std::string name = model.name;
  fields->String("model", &name);
  if (!fields->ok() || name == model.name || name.empty()) return;
  fields->Fail(UnknownModel(model, name));
}

void RefuseUnserved(FieldReader* fields) {
  for (const char* name : kUnserved) {
    const Json* field = fields->Find(name);
    if (field != nullptr && !IsOff(*field)) {
      return fields->Fail(name, "is not served here; leave it out, not: " + Shown(*field));
    }
  }
}

void CheckTextBytes(const ServedModel& model, const char* name, std::size_t bytes,
                    FieldReader* fields) {
  if (bytes <= model.prompt_bytes) return;
  fields->Fail(ApiError{
      .message =
          fmt::format("{} may have {} bytes of text, the most that a context of {} tokens can "
                      "hold, not: {}",
                      name, model.prompt_bytes, model.context, bytes),
      .param = name,
      .code = "context_length_exceeded"});
}

void ReadSampling(const ServedModel& model, FieldReader* fields, EngineRequest* request) {
  SamplerOptions& sampling = request->sampling;
  sampling.temperature = 1.0F;
  sampling.top_k = 0;
  sampling.top_p = 1.0F;
  sampling.min_p = 0.0F;
  sampling.penalty_last_n = 0;
  fields->Number("temperature", 0, 2, &sampling.temperature);
  fields->Number("top_p", 0, 1, &sampling.top_p);
  fields->Number("min_p", 0, 1, &sampling.min_p);
  fields->Integer("top_k", -1, std::numeric_limits<std::int32_t>::max(), &sampling.top_k);
  if (sampling.top_k < 0) sampling.top_k = 0;
  if (sampling.top_p == 0) sampling.top_k = 1;  // the smallest set there is: the best token
  if (sampling.top_p == 0) sampling.top_p = 1.0F;
  fields->Number("frequency_penalty", -2, 2, &sampling.frequency_penalty);
  fields->Number("presence_penalty", -2, 2, &sampling.presence_penalty);
  fields->Number("repetition_penalty", 0.01, 2, &sampling.repeat_penalty);
  if (sampling.frequency_penalty != 0 || sampling.presence_penalty != 0 ||
      sampling.repeat_penalty != 1) {
    sampling.penalty_last_n = kMaxPenaltyTokens;
  }
  if (fields->Find("seed") != nullptr) {
    std::int64_t seed = 0;
    fields->Integer("seed", std::numeric_limits<std::int64_t>::min(),
                    std::numeric_limits<std::int64_t>::max(), &seed);
    sampling.seed = static_cast<std::uint64_t>(seed);
  }
  fields->Boolean("ignore_eos", &sampling.ignore_eos);
  ReadLogitBias(model.vocabulary->size(), fields, &sampling.logit_bias);
  fields->Integer("n", 1, kMaxChoices, &request->choices);
  int best_of = request->choices;
  fields->Integer("best_of", request->choices, request->choices, &best_of);
}

void ReadReplyOptions(const ServedModel& model, FieldReader* fields, ReplyOptions* reply) {
  fields->Boolean("stream", &reply->stream);
  const Json* options = fields->Find("stream_options");
  if (options != nullptr) {
    if (!options->is_object() || !reply->stream) {
      return fields->Fail("stream_options",
                          "must be an object, beside stream: true, not: " + Shown(*options));
    }
    FieldReader inner(options);
    inner.Boolean("include_usage", &reply->include_usage);
    if (!inner.ok()) return fields->Fail("stream_options", inner.error().message);
  }
  fields->Strings("stop", kMaxStops, &reply->stops);
  for (const std::string& stop : reply->stops) {
    if (stop.size() > kMaxStopBytes) {
      return fields->Fail(
          "stop", fmt::format("may have strings of {} bytes, not: {}", kMaxStopBytes, stop.size()));
    }
  }
  fields->Tokens("stop_token_ids", kMaxStopTokens, model.vocabulary->size(), &reply->stop_tokens);
}

void ReadCacheFields(FieldReader* fields, EngineRequest* request) {
  std::string quality;
  fields->String("kv_quality", &quality);
  if (!quality.empty()) {
    request->quality = ParseQuality(quality);
    if (!request->quality) {
      return fields->Fail("kv_quality", "must be exact, near or any, not: " + Shown(Json(quality)));
    }
  }
  std::string format;
  fields->String("kv_format", &format);
  if (!format.empty()) {
    const Result<PageFormat> parsed = ParsePageFormat(format);
    if (!parsed.ok()) return fields->Fail("kv_format", "is unknown: " + parsed.status().message());
    request->format =
        KvFormat{.key = parsed->key->info().name, .value = parsed->value->info().name};
  }
  ReadForgetting(fields, request);
  fields->String("cache_salt", &request->request_salt);
  fields->Boolean("cache_prompt", &request->share_prefix);
}

}  // namespace swiftkv
