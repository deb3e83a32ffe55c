// SPDX-License-Identifier: Apache-2.0
// Lets choices wait for what others are computing, instead of computing it twice.
#include <algorithm>

#include "engine/forgetting_progress.h"
#include "engine/roster.h"
#include "engine/shared_prefill.h"

namespace swiftkv {
namespace {

// Whether what `leader` computes is found by `follower`.
bool SharesWith(const ActiveRequest& leader, const ActiveRequest& follower) {
  const PrefixScope& a = leader.scope;
  const PrefixScope& b = follower.scope;
  return a.share && b.share && a.tenant_salt == b.tenant_salt && a.request_salt == b.request_salt &&
         leader.format == follower.format && Serves(a.allowed, b.allowed);
}

// Whether both keep the same of the same prompt.
bool ForgetAlike(const ActiveRequest& a, const ActiveRequest& b) {
  return a.forgetting != nullptr && b.forgetting != nullptr && !a.only_compresses() &&
         !b.only_compresses() &&
         a.forgetting->own_recipes.prompt == b.forgetting->own_recipes.prompt;
}

bool IsComputing(const Candidate& candidate, const Seat& seat) {
  return candidate.running && !candidate.paused && !seat.choice->stalled &&
         candidate.end() - candidate.computed > 1;
}

// Whether the leader is on its way to its first compaction, or in it.
bool MakesSegment(const Candidate& candidate, const Seat& seat) {
  return candidate.running && !candidate.paused && !seat.choice->stalled &&
         seat.choice->forgetting.last == 0 && seat.choice->forgetting.next > 0;
}

// Whether `follower`, which has compacted nothing, had better take the segment that `leader` makes.
bool AwaitsSegment(const Seat& leader, const Seat& follower) {
  const std::int64_t at = follower.choice->forgetting.next;
  if (follower.request->forgetting == nullptr || !ForgetAlike(*leader.request, *follower.request) ||
      follower.request->forgetting->schedule.when != CompactionSchedule::When::kWithinPrompt ||
      follower.choice->forgetting.last > 0 || follower.choice->forgetting.job != nullptr ||
      at <= 0 || leader.choice->forgetting.next != at) {
    return false;
  }
  const auto length = static_cast<std::ptrdiff_t>(at);
  return std::equal(leader.choice->tokens.begin(), leader.choice->tokens.begin() + length,
                    follower.choice->tokens.begin());
}

}  // namespace

bool Roster::StillFollows(ActiveChoice* choice) const {
  if (choice->until == 0) return false;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].request->id != choice->leader) continue;
    if (seats_[i].choice->index != choice->leader_index) continue;
    if (choice->awaits_segment) {
      if (MakesSegment(candidates_[i], seats_[i])) return true;
    } else if (IsComputing(candidates_[i], seats_[i]) && candidates_[i].computed < choice->until) {
      return true;
    }
  }
  choice->until = 0;
  choice->awaits_segment = false;
  return false;
}

bool Roster::Follow(std::size_t index, std::int64_t computed, std::int64_t ground) {
  const Seat& seat = seats_[index];
  if (seat.request->tells_prompt()) return false;
  const PrefillView mine = {
      .tokens = AdoptableTokens(*seat.request, *seat.choice, seat.choice->query_origin),
      .computed = computed};
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const Seat& other = seats_[i];
    if (i == index || !GoesBefore(candidates_[i], candidates_[index]) ||
        !SharesWith(*other.request, *seat.request)) {
      continue;
    }
    std::int64_t until = 0;
    const bool for_segment =
        ground == 0 && MakesSegment(candidates_[i], other) && AwaitsSegment(other, seat);
    if (for_segment) {
      until = seat.choice->forgetting.next;
    } else if (IsComputing(candidates_[i], other) && other.choice->forgetting.last == ground &&
               (ground == 0 || ForgetAlike(*other.request, *seat.request))) {
      const std::span<const TokenId> theirs = other.choice->tokens;
      until =
          FollowUntil(mine, {.tokens = theirs.first(static_cast<std::size_t>(candidates_[i].end())),
                             .computed = candidates_[i].computed});
    }
    if (until <= seat.choice->until) continue;
    seat.choice->leader = other.request->id;
    seat.choice->leader_index = other.choice->index;
    seat.choice->until = until;
    seat.choice->awaits_segment = for_segment;
  }
  return seat.choice->until > 0;
}

// Prompts that are being computed wait for one another as those do that have no place.
void Roster::JoinPrefills() {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    ActiveChoice& choice = *seats_[i].choice;
    const bool followed = choice.until > 0;
    // Who waits for a segment may stand where it would make one itself.
    if (!IsComputing(candidates_[i], seats_[i]) && !(followed && candidates_[i].running)) continue;
    candidates_[i].follows = StillFollows(&choice);
    if (candidates_[i].follows) continue;
    if (followed) {
      Adopt(seats_[i]);
      candidates_[i] = Describe(*seats_[i].request, choice);
    }
    candidates_[i].follows = Follow(i, candidates_[i].computed, choice.forgetting.last);
  }
}

}  // namespace swiftkv
