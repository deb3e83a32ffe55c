// SPDX-License-Identifier: Apache-2.0
// Decides who gets a place, who gives one up, and who computes how much in a step. Layer: engine.
//
// Pure functions over plain data: no cache, no clock, no model. The order is the same everywhere:
// higher priority first, within one priority by arrival, and a request's choices by index.
// Consequences that tests hold them to:
// - within a priority nobody overtakes for a place, but those who wait for blocks that somebody
//   ahead computes, or for their readers, are passed over meanwhile;
// - who goes first never loses its place to others, unless its reader has stopped reading, and who
//   has reserved slots never at all;
// - whoever lost a place comes back only after another choice has ended, or alone, or where all can
//   grow on for long, so that it computes much more than it loses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace swiftkv {

// One choice of one request as the scheduler sees it.
struct Candidate {
  int priority = 0;
  std::uint64_t arrival = 0;  // of the request
  int index = 0;              // of the choice

  bool running = false;   // has a place; else waits for one
  bool paused = false;    // its reader is behind: computes nothing, and anybody may take its place
  bool follows = false;   // waits for blocks that one ahead is computing
  bool barred = false;    // preempted, and nobody has ended since: needs ample room
  bool reserved = false;  // its place comes with all slots that it will need, and stays its own

  int places = 1;                     // that it takes: more where choices are yet to fork off it
  std::int64_t tokens = 0;            // known so far
  std::int64_t computed = 0;          // of these, in the cache
  std::int64_t compaction_at = 0;     // tokens before a compaction, which comes first; 0: none
  std::int64_t recompute_tokens = 0;  // what preempting it would cost at most
  // Of the cache: what is its alone; what its known tokens and the next few need on top,
  // at most; and what many more would need on top of that.
  std::uint64_t held_bytes = 0;
  std::uint64_t bytes_to_come = 0;
  std::uint64_t bytes_to_grow = 0;
  std::uint64_t last_step = 0;  // that computed rows of it

  // The tokens that can be computed now, those in the cache included.
  std::int64_t end() const { return compaction_at > 0 ? std::min(tokens, compaction_at) : tokens; }
};

// Whether `a` goes before `b`.
bool GoesBefore(const Candidate& a, const Candidate& b);

// What admission may give away.
struct Room {
  int places = 0;                     // of all candidates together
  std::uint64_t available_bytes = 0;  // that the cache can still map, evicting what is only cached
};

enum class AdmissionVerdict : std::uint8_t {
  kAdmit,
  kPreempt,   // `victim` first, then ask again
  kPassOver,  // not now; others may be admitted
  kStop,      // not now, and nobody behind it
};

struct Admission {
  AdmissionVerdict verdict = AdmissionVerdict::kStop;
  std::size_t victim = 0;  // index of a candidate, where kPreempt
};

// Judges whether candidates[waiting] gets a place now. Called in order of GoesBefore. One that is
// barred does where all who run, and it, have room for bytes_to_grow as well. With nobody
// running there is always room: whether it suffices shows when it is taken. So where all who run
// give way they do, whatever the estimates say: else one who never reads could hold up everybody.
Admission JudgeAdmission(std::span<const Candidate> candidates, std::size_t waiting,
                         const Room& room);

// Whether it computes a token at a time, for a reply that somebody reads.
bool IsStream(const Candidate& candidate);

// Rows of one candidate in a step.
struct RowShare {
  std::size_t candidate = 0;
  int rows = 0;
};

// Rows that a step may have at most.
struct StepRows {
  int all = 0;
  int of_prompts = 0;  // of candidates with more than one token to compute, at least 1
};

// Shares the rows of a step out: first one to each that has one token to compute, then the
// rest to prompts in order, in chunks that end with a block where they don't end the prompt. Where
// there are not rows enough for everyone's one, those go first that have waited longest.
std::vector<RowShare> ShareRows(std::span<const Candidate> candidates, const StepRows& most);

// Returns whom candidates[needy] may take the place of: of those running that go after it, or are
// paused, the one with the lowest priority, then the least to recompute, then the last arrival.
std::optional<std::size_t> ChooseVictim(std::span<const Candidate> candidates, std::size_t needy);

}  // namespace swiftkv
