// SPDX-License-Identifier: Apache-2.0
// Holds a request from Submit to its end: its choices, their tokens and where they stand. Layer:
// engine.
//
// Owner: whoever submits until the inbox has it, then the engine's thread. Invariants of a choice:
// `tokens` is the prompt and the reply so far, of which the first `computed` are in `sequence`; the
// last sampled token is computed one step later. A preempted choice has no sequence and computes
// all of `tokens` again; its sampler and its text go on where they were, so nothing is told twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/forgetting_rule.h"
#include "engine/forgetting_state.h"
#include "engine/kv_memory.h"
#include "engine/stream_buffer.h"
#include "model/sampler.h"
#include "model/token_text.h"
#include "swiftkv/prefix_sharing.h"
#include "swiftkv/request.h"

namespace swiftkv {

enum class ChoicePhase : std::uint8_t {
  kUnborn,   // its prompt is computed by choice 0
  kWaiting,  // for a place: new, or preempted
  kRunning,  // has a sequence
  kDone,
};

struct ActiveChoice {
  int index = 0;
  ChoicePhase phase = ChoicePhase::kUnborn;
  std::unique_ptr<Sampler> sampler;
  std::optional<TextStream> text;
  std::vector<TokenId> tokens;  // empty while unborn
  std::size_t computed = 0;     // tokens in the cache
  // The first tokens, which were found there and are not its alone; as its last place had it.
  std::size_t adopted = 0;
  std::optional<SequenceId> sequence;
  ForgettingState forgetting;
  // Decided by the time of its first row; stays when the choice loses its place, so that it comes
  // back the same way.
  QueryOrigin query_origin = QueryOrigin::kUndecided;
  // Its end was asked for, but others are unborn whose prompt it computes.
  std::optional<FinishReason> withdrawn;
  bool was_preempted = false;          // since its last place
  std::uint64_t ended_then = 0;        // choices that had ended when it was preempted
  std::uint64_t last_step = 0;         // that computed rows of it
  std::optional<FinishReason> finish;  // set before its end is told
  // From Submit.
  std::optional<double> first_token_seconds;
  double last_token_seconds = 0;

  // Whose blocks it waits for, and up to which length; nobody's where `until` is 0.
  RequestId leader{};
  int leader_index = 0;
  std::int64_t until = 0;
  bool awaits_segment = false;  // it waits for more than blocks: for the leader's compaction
  bool stalled = false;         // found no room for its rows in the last step
  // Where it got no place for want of memory: not looked at before this step, unless another choice
  // ends first.
  std::uint64_t retry_step = 0;
  std::uint64_t retry_ended = 0;
};

struct ActiveRequest {
  using Clock = std::chrono::steady_clock;

  RequestId id{};  // ascending in the order of arrival
  EngineRequest asked;
  KvFormat format;
  PrefixScope scope;
  std::shared_ptr<const ForgettingRule> forgetting;  // null: forgets nothing
  KvFootprint footprint;
  std::int64_t reserved_tokens = 0;  // slots that a place comes with; 0: no reservation
  std::shared_ptr<StreamBuffer> stream;
  std::vector<ActiveChoice> choices;

  RequestUsage usage;
  Clock::time_point submitted;
  bool left_queue = false;  // has had a place
  bool paused = false;      // its reader was behind when it was last looked at

  // Where log-probabilities of the prompt are asked for: its tokens that were told, and their text.
  std::size_t told_prompt = 0;
  std::optional<TextStream> prompt_text;

  std::size_t prompt_tokens() const { return asked.prompt.size(); }
  // Makes a compressed prefix for others, and no reply.
  bool only_compresses() const { return asked.keep_compressed_ms > 0; }
  bool tells_prompt() const { return asked.prompt_logprobs >= 0 && told_prompt < prompt_tokens(); }
  double SecondsSinceSubmit() const {
    return std::chrono::duration<double>(Clock::now() - submitted).count();
  }
};

}  // namespace swiftkv
