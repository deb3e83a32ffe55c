// SPDX-License-Identifier: Apache-2.0
// Declares the engine: many requests at once over one model and one paged cache. Layer: engine.
//
// One thread of the engine's own computes; every function here may be called from any thread.
// Requests share what their prompts have in common, are computed together, and give their place up
// to one another when memory runs short, without a loss: nobody fails for another's sake.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "swiftkv/kv_cache.h"
#include "swiftkv/prefix_sharing.h"
#include "swiftkv/quality.h"
#include "swiftkv/request.h"
#include "swiftkv/status.h"

namespace swiftkv {

class StreamBuffer;
class EngineInbox;

// Slots of the cache that a request must have before it is given a place. A request with reserved
// slots is never preempted, whatever comes: in return others wait for longer, it shares no blocks
// and has one choice.
enum class SlotReservation : std::uint8_t {
  kNone,        // none but those that it fills as it goes
  kContext,     // for a whole context
  kPowerOfTwo,  // for its prompt and max_tokens, rounded up to a power of two
  kExact,       // for its prompt and max_tokens
};

// How many requests an engine works on.
struct EngineLimits {
  int max_sequences = 64;  // choices that are computed together
  int max_queue = 256;     // requests that wait for their first place
  // The worst grade that any request may have. None: that of the engine's own format, or any where
  // there is something to forget.
  std::optional<Quality> ceiling = {};
  // What requests forget that do not say otherwise and read any grade, as they then do unasked.
  std::optional<Forgetting> forgetting = {};
  SlotReservation reservation = SlotReservation::kNone;  // without max_tokens: a whole context
};

struct EngineOptions {
  std::string model_path;             // a GGUF; of a split model the first file
  int threads = 0;                    // that compute; 0: the cores that the process may use
  int context = 0;                    // tokens of a sequence at most; 0: the model's maximum
  int step_tokens = 0;                // of a step at most; 0: as many as keep a step short
  KvFormat format = {};               // of requests that do not say otherwise
  std::uint64_t kv_memory_bytes = 0;  // hard bound on the cache; 0: what the machine leaves
  EngineLimits limits = {};
};

// What the engine does at the end of its last step.
struct EngineSnapshot {
  int running = 0;                      // choices in the cache
  int waiting = 0;                      // choices that wait for a place, preempted ones included
  int most_running = 0;                 // in the cache in any step so far
  std::uint64_t steps = 0;              // forward passes
  std::uint64_t finished_requests = 0;  // however they ended
  std::uint64_t preemptions = 0;
  std::uint64_t prompt_tokens = 0;  // of all requests that were given a place
  std::uint64_t cached_tokens = 0;  // of these, found in the cache
  std::uint64_t generated_tokens = 0;
  std::uint64_t compactions = 0;       // of sequences
  std::uint64_t forgotten_tokens = 0;  // by these, summed over heads
  PrefixCounters prefixes;             // of the cache
  SegmentTotals segments;              // likewise
  std::shared_ptr<const std::vector<SegmentDescription>> described_segments;  // likewise
  PinnedPrefixes pinned;                                                      // likewise
  double queue_seconds = 0;       // waited for first places, all requests together
  double forward_seconds = 0;     // spent in forward passes
  double busy_seconds = 0;        // in steps: forward passes, scheduling, sampling and the rest
  double running_seconds = 0;     // the same, counted once for each choice in the cache
  double compaction_seconds = 0;  // of busy_seconds: scoring, planning and moving what is kept
  double scheduling_seconds = 0;  // of busy_seconds: requests that came, and plans of steps
  double reserving_seconds = 0;  // of busy_seconds: slots of the cache made writable, memory mapped
  double sampling_seconds = 0;   // of busy_seconds: tokens drawn and told
  KvBalance balance;
};

enum class StreamOutcome : std::uint8_t {
  kEvent,    // an event was read
  kTimeout,  // none came in time
  kEnd,      // all were read; status() and usage() are final
};

// Reads a request's events. Movable; one thread reads at a time. A stream that goes away before its
// end cancels the request.
class TokenStream {
 public:
  TokenStream() = default;  // has ended
  TokenStream(RequestId id, std::shared_ptr<StreamBuffer> buffer,
              std::shared_ptr<EngineInbox> inbox);
  TokenStream(TokenStream&& other) noexcept = default;
  TokenStream& operator=(TokenStream&& other) noexcept;
  ~TokenStream();

  // Waits at most `timeout` for the next event. Events of one choice come in order, those of
  // several interleaved.
  StreamOutcome Next(TokenEvent* event, std::chrono::milliseconds timeout);

  // Withdraws the request. It takes effect within one step; what was computed until then can still
  // be read, and the end of each choice says kCancelled.
  void Cancel();

  // As Cancel, by a reader who has all it wants, e.g. at a stop string of its own: the end of each
  // choice says kStop, and statistics count the request as one that was served.
  void Finish();
  // The same for one choice; the others go on. An unknown one is ignored.
  void Finish(int choice);

  RequestId id() const { return id_; }
  // Ok unless the request itself failed (its choices then have no end): ResourceExhausted where its
  // prompt alone needs more than the cache's memory; else what forward pass or sampler returned.
  Status status() const;
  RequestUsage usage() const;

 private:
  RequestId id_{};
  std::shared_ptr<StreamBuffer> buffer_;
  std::shared_ptr<EngineInbox> inbox_;
};

// What tells how an operation on the cache went. Called once, on the engine's thread: it must
// return at once and call nothing of the engine.
using DropCallback = std::function<void(const DroppedPrefixes&)>;
using StatusCallback = std::function<void(const Status&)>;

class Engine {
 public:
  // Called with done in [0, 1] while weights load; returning false cancels.
  using LoadProgress = std::function<bool(double done)>;

  // Loads the model and starts the engine's thread. Errors: NotFound, DataLoss, Unsupported,
  // InvalidArgument, ResourceExhausted and Cancelled, with the file or the option in the sentence.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                const LoadProgress& progress = nullptr);
  ~Engine();  // Shutdown
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Turns text into tokens: as it is, or as the user's message of a chat, by the model's template.
  // Errors: InvalidArgument for what is no UTF-8 or gives no tokens; Unsupported where the model
  // has no chat template.
  Result<std::vector<std::int32_t>> EncodePrompt(std::string_view text) const;
  Result<std::vector<std::int32_t>> EncodeChat(std::string_view user_message,
                                               std::string_view system_message = "") const;

  // Queues a request. Errors, all at once: InvalidArgument for a prompt that is empty, beyond the
  // context or has a token outside the vocabulary, bad sampling options, more choices than the
  // engine computes together, a format or quality beyond the ceiling, a prompt or a reservation
  // that the cache's memory can never hold; ResourceExhausted where the queue is full; Cancelled
  // after Drain or Shutdown.
  Result<TokenStream> Submit(EngineRequest request);

  // As TokenStream::Cancel; an unknown id is ignored.
  void Cancel(RequestId id);

  EngineSnapshot Snapshot() const;

  // The operations below are carried out between two steps, in the order in which they were asked
  // for. Those with a callback return at once; an error that they return is of the asking itself,
  // and nothing is called then: Cancelled after Shutdown, ResourceExhausted where too many wait,
  // InvalidArgument for what can never be done. The others wait for the outcome, a step at most;
  // not on the engine's thread.

  // Forgets cached blocks, all or those of an owner, pinned or not. Requests that run keep what
  // they use, and what they compute is not found by others any more.
  Status DropPrefixes(const std::optional<PrefixOwner>& owner, DropCallback done);
  Result<DroppedPrefixes> DropPrefixes(const std::optional<PrefixOwner>& owner = {});

  // Keeps cached blocks from being evicted for some time from now on, or until UnpinPrefix. Pinned
  // blocks take room from requests. A longer pin of the same prefix stays. Errors: NotFound where
  // not all blocks are in the cache, InvalidArgument for a time of 0 or less and for a format or
  // quality as in Submit.
  Status PinPrefix(const PrefixName& prefix, std::chrono::milliseconds keep, StatusCallback done);
  Status PinPrefix(const PrefixName& prefix, std::chrono::milliseconds keep);

  // Ends the pin of exactly this prefix. Errors: NotFound where it is not pinned.
  Status UnpinPrefix(const PrefixName& prefix, StatusCallback done);
  Status UnpinPrefix(const PrefixName& prefix);

  // Takes no more requests and waits for the end of all others. Returns whether they ended in time;
  // a request whose reader does not read never does.
  bool Drain(std::chrono::milliseconds timeout);

  // Takes no more requests, cancels all others within a step and ends the engine's thread. Streams
  // stay readable.
  void Shutdown();

  int context() const;  // tokens that one sequence may hold

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace swiftkv
