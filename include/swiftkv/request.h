// SPDX-License-Identifier: Apache-2.0
// Holds what an engine is asked for and what it tells of it, as plain data. Layer: engine.
//
// Token ids are those of the engine's model. Times are of the monotonic clock, in seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "swiftkv/kv_cache.h"
#include "swiftkv/prefix_sharing.h"
#include "swiftkv/quality.h"
#include "swiftkv/sampler_options.h"

namespace swiftkv {

enum class RequestId : std::uint64_t {};

enum class FinishReason : std::uint8_t {
  kStop,       // the model ended its reply
  kLength,     // a limit was reached: see LengthLimit
  kCancelled,  // the caller withdrew
};

// Returns "stop", "length" or "cancelled".
const char* FinishReasonName(FinishReason reason);

enum class LengthLimit : std::uint8_t {
  kNone,       // the reply ended otherwise
  kMaxTokens,  // as many tokens as were asked for
  kContext,    // the sequence holds as many tokens as the context allows
  kMemory,     // the cache's memory is full
};

// What a request forgets of its cache (docs/policies.md). Fields that are left out are the engine's
// own (EngineLimits::forgetting).
struct Forgetting {
  std::string policy = {};           // "NAME" or "NAME:key=value,..."; "none": nothing
  std::optional<double> ratio = {};  // the fraction that is removed, [0, 1); or
  std::string budget = {};           // what is kept: "4096", "4096tokens", "64MiB"
  // "int8=0.5": so much of what is kept goes into a format smaller than the request's own, that
  // which matters least; "same": nothing. Unlike the others, it is the engine's own only for
  // requests in the engine's format.
  std::string kept_as = {};
};

struct EngineRequest {
  std::vector<std::int32_t> prompt;  // 1 token or more, fewer than the context
  SamplerOptions sampling;           // choice i draws with seed + i
  int max_tokens = -1;               // of each choice; -1: until it ends or a limit is reached
  int choices = 1;                   // replies to the one prompt, which is computed once
  int priority = 0;                  // larger goes first; equals go in the order of their arrival
  // Log-probabilities of each token: -1 none, 0 of the one that was drawn, n also of the n best.
  int logprobs = -1;
  // The same of the prompt's tokens, given those before. Such a request computes its whole prompt:
  // it takes nothing from the cache, but others find what it computes.
  int prompt_logprobs = -1;

  // Where K and V are stored otherwise than the engine does. The format's grade must serve
  // `quality` and the engine's ceiling.
  std::optional<KvFormat> format = {};
  // The worst grade that the request reads. None: what the engine's own format has. Where the
  // engine's format is worse than this and `format` names none, f16 is taken.
  std::optional<Quality> quality = {};

  // What it forgets. None: the engine's own, unless `quality` is better than any. Where there is
  // something to forget, `quality` and the engine's ceiling must be any.
  std::optional<Forgetting> forgetting = {};
  // More than 0: no reply is wanted, but that the prompt's whole blocks are compressed and kept for
  // so long, for requests that forget alike. max_tokens and choices are not looked at.
  std::int64_t keep_compressed_ms = 0;

  // Cached blocks are found only by requests of the same salts.
  std::string tenant_salt;   // from who asks
  std::string request_salt;  // narrows it
  bool share_prefix = true;  // false: neither finds cached blocks nor leaves any

  // Events that wait unread before the request is paused; 0: any number.
  int buffered_events = 256;
  // Called on the engine's thread whenever the stream has something new to read, its end included.
  // It must return at once and call nothing of the engine or the stream. The last call may come
  // just after the end was read: what it refers to must outlive the engine, or belong to it.
  std::function<void()> on_ready;
};

// Whose cached blocks are meant, by the salts of a request. The empty texts are one owner as well.
struct PrefixOwner {
  std::string tenant_salt;
  std::string request_salt;
};

// The beginning of prompts, as requests with these fields find it in the cache.
struct PrefixName {
  std::vector<std::int32_t> tokens;  // of which whole blocks of 16 count
  PrefixOwner owner;
  std::optional<KvFormat> format = {};
  std::optional<Quality> quality = {};
};

// One token of a prompt, told.
struct PromptToken {
  std::int32_t token = -1;
  std::string text = {};                     // the characters that it completes
  std::optional<TokenLogprob> logprob = {};  // none of the first, which nothing comes before
  std::vector<TokenLogprob> top = {};        // best first
};

// One token of one choice, or its end, or both; or tokens of the prompt.
struct TokenEvent {
  int choice = 0;           // in [0, EngineRequest::choices)
  std::int32_t token = -1;  // -1: no token, but the end, or the prompt's
  std::string text;         // the characters that the token completes: well-formed UTF-8, joined in
                            // order the reply
  std::optional<TokenLogprob> logprob;     // of `token`, where asked for
  std::vector<TokenLogprob> top;           // best first, likewise
  std::optional<FinishReason> finish;      // set in the last event of the choice
  LengthLimit limit = LengthLimit::kNone;  // where `finish` is kLength
  std::int32_t end_token = -1;             // where `finish` is kStop: the token that ended it
  // Where EngineRequest::prompt_logprobs asks for it: the next tokens of the prompt, in events of
  // their own before all others.
  std::vector<PromptToken> prompt;
};

// What a request's cache held, and what of it was forgotten. Of several choices, what the last one
// to end held.
struct KvUsage {
  std::string policy = "none";   // canonical, with its parameters
  std::string kept_as = "same";  // canonical: a smaller format and its share
  // Whose queries a policy that needs their statistics looked at: "own", those of the prompt, or
  // "model", those measured of the model beforehand; empty: of nobody.
  std::string query_statistics = {};
  std::int64_t logical_tokens = 0;     // length of the sequence
  std::int64_t kept_tokens = 0;        // of these, that a head without a window holds on average
  std::uint64_t bytes = 0;             // of its pages, those that it shares in full
  std::int64_t compressed_tokens = 0;  // of the prompt, that were found compressed
  int compactions = 0;                 // of all choices
  double compaction_seconds = 0;       // scoring, planning and moving
};

// What a request took; complete once its stream has ended.
struct RequestUsage {
  std::int64_t prompt_tokens = 0;
  // Why no more was found in the cache, and where the prompt left the closest that is known
  // (kTokenDiffers; else -1).
  PrefixEnd prefix_end = PrefixEnd::kNeverSeen;
  std::int64_t prefix_differs_at = -1;
  std::int64_t cached_tokens = 0;      // of the prompt, found in the cache and not computed
  std::int64_t completion_tokens = 0;  // of all choices, without the tokens that ended them
  KvUsage kv;
  int preemptions = 0;       // times that a choice gave its place up; it went on without a loss
  std::uint64_t seed = 0;    // of choice 0, given or drawn
  double queue_seconds = 0;  // from Submit to the first place in a step
  double first_token_seconds = 0;  // from Submit to the first sampled token
  double total_seconds = 0;        // from Submit to the end
};

}  // namespace swiftkv
