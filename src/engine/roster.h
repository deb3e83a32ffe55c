// SPDX-License-Identifier: Apache-2.0
// Keeps all requests that have not ended, and everything that happens to their places. Layer:
// engine.
//
// Owner: the engine's thread. Candidates are the scheduler's view of the choices that run or wait;
// Collect makes them anew, and indices hold until then. Sequences are made and given back here and
// nowhere else in the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/active_request.h"
#include "engine/engine_inbox.h"
#include "engine/scheduler.h"
#include "engine/statistics_recorder.h"
#include "swiftkv/engine.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

// A choice and its request.
struct Seat {
  ActiveRequest* request = nullptr;
  ActiveChoice* choice = nullptr;
};

class Roster {
 public:
  // All must outlive the roster. `step_rows` of a step at most.
  Roster(KvCache* cache, EngineInbox* inbox, StatisticsRecorder* recorder, int step_rows)
      : cache_(cache), inbox_(inbox), recorder_(recorder), step_rows_(step_rows) {}

  void Add(std::unique_ptr<ActiveRequest> request);
  ActiveRequest* Find(RequestId id);  // null where it has ended
  bool empty() const { return requests_.empty(); }

  // Drops requests that have ended and makes the candidates anew.
  void Collect();
  std::span<const Candidate> candidates() const { return candidates_; }
  const Seat& seat(std::size_t index) const { return seats_[index]; }
  int CountRunning() const;  // of the candidates

  // Whether anybody had a place and a reader at Collect, so that steps go on whoever gets a place
  // now.
  bool somebody_goes_on() const { return somebody_goes_on_; }

  // Choices that have ended so far, however.
  std::uint64_t ended_choices() const { return ended_choices_; }

  // What the cache can still give.
  std::uint64_t AvailableBytes() const;

  // Finds out what a waiting candidate would have to compute, and whether it had better wait for
  // somebody who is computing it: what it may need and follows are right from then on.
  void LookUp(std::size_t index);

  // Gives a waiting candidate a sequence, with the slots that are reserved for it or with all that
  // is found of its tokens, for now: Confirm or Withdraw comes next. Errors: ResourceExhausted.
  Status Place(std::size_t index);
  void Confirm(std::size_t index);
  void Withdraw(std::size_t index);
  // Takes a running candidate's sequence: it waits again, with all its tokens.
  void Preempt(std::size_t index);
  // Makes the choices that have no sequence yet out of choice 0, whose whole prompt is computed and
  // nothing else. Those that find no room wait.
  void ForkChoices(ActiveRequest* request);

  // Choices that can go on only after a compaction, in the order of arrival; also those that came
  // after Collect.
  std::vector<Seat> Compacting();
  // Takes the place of one that goes after. False: there is none.
  bool MakeRoomFor(const Seat& seat);
  // Whether nobody else is in the cache.
  bool IsAlone(const Seat& seat) const;
  // Counts what a job did.
  void Compacted(const Seat& seat, const CompactionOutcome& outcome, double seconds);

  // Gives the sequence back after the choice's last event; the last choice ends the request.
  void EndChoice(const Seat& seat);
  // Ends every choice that has not.
  void End(ActiveRequest* request, FinishReason reason);
  // Ends one choice; the first one only once nobody is left whose prompt it computes.
  void EndEarly(ActiveRequest* request, int index, FinishReason reason);
  void CancelAll();
  // Ends the request with an error.
  void Fail(ActiveRequest* request, const Status& status);

  // Fills what is known here, and tells the recorder what is held now.
  void Report(EngineSnapshot* snapshot);

 private:
  void Estimate(const ActiveRequest& request, const ActiveChoice& choice, std::int64_t shared,
                Candidate* candidate) const;
  Candidate Describe(const ActiveRequest& request, const ActiveChoice& choice) const;
  bool StillFollows(ActiveChoice* choice) const;
  // Looks for a leader among those that go before; `computed` tokens are in the cache, the first
  // `ground` of them compressed.
  bool Follow(std::size_t index, std::int64_t computed, std::int64_t ground);
  void JoinPrefills();
  void Adopt(const Seat& seat);
  static void NoteQueryOrigin(const Seat& seat);
  void NoteHeld(const Seat& seat) const;
  void LeaveQueue(ActiveRequest* request);
  void GiveBack(ActiveChoice* choice);
  void TellAndEnd(ActiveRequest* request, ActiveChoice* choice, FinishReason reason);
  void Close(ActiveRequest* request, const Status& status);

  KvCache* cache_;
  EngineInbox* inbox_;
  StatisticsRecorder* recorder_;
  const int step_rows_;
  std::vector<std::unique_ptr<ActiveRequest>> requests_;  // in the order of arrival
  std::vector<Candidate> candidates_;
  std::vector<Seat> seats_;  // [candidates]
  bool somebody_goes_on_ = false;

  std::uint64_t ended_choices_ = 0;
  std::uint64_t ended_requests_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t compactions_ = 0;
  std::uint64_t forgotten_tokens_ = 0;
  double compaction_seconds_ = 0;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  std::uint64_t generated_tokens_ = 0;  // of ended requests
  double queue_seconds_ = 0;
  std::shared_ptr<const std::vector<SegmentDescription>> described_;
  SegmentTotals described_totals_;  // when described_ was put together
};

}  // namespace swiftkv
