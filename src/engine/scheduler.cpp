// SPDX-License-Identifier: Apache-2.0
// Implements the rules of scheduling.
#include "engine/scheduler.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "swiftkv/page_view.h"

namespace swiftkv {
namespace {

bool CanCompute(const Candidate& candidate) {
  return candidate.running && !candidate.paused && !candidate.follows &&
         candidate.computed < candidate.end();
}

// Whether `victim` is cheaper to preempt than `other`.
bool IsCheaper(const Candidate& victim, const Candidate& other) {
  if (victim.priority != other.priority) return victim.priority < other.priority;
  if (victim.recompute_tokens != other.recompute_tokens) {
    return victim.recompute_tokens < other.recompute_tokens;
  }
  return GoesBefore(other, victim);
}

template <typename Eligible>
std::optional<std::size_t> CheapestOf(std::span<const Candidate> candidates,
                                      const Eligible& eligible) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].running || candidates[i].reserved || !eligible(candidates[i])) continue;
    if (!best || IsCheaper(candidates[i], candidates[*best])) best = i;
  }
  return best;
}

// Cuts a chunk of a prompt so that it ends with a block, where it holds a block's end.
int AlignedRows(const Candidate& candidate, std::int64_t rows) {
  if (candidate.computed + rows < candidate.end()) {
    const std::int64_t end = (candidate.computed + rows) / kPageTokens * kPageTokens;
    if (end > candidate.computed) rows = end - candidate.computed;
  }
  return static_cast<int>(rows);
}

}  // namespace

bool GoesBefore(const Candidate& a, const Candidate& b) {
  return std::tuple(-a.priority, a.arrival, a.index) < std::tuple(-b.priority, b.arrival, b.index);
}

bool IsStream(const Candidate& candidate) {
  return CanCompute(candidate) && candidate.tokens - candidate.computed == 1;
}

Admission JudgeAdmission(std::span<const Candidate> candidates, std::size_t waiting,
                         const Room& room) {
  const Candidate& next = candidates[waiting];
  SKV_CHECK(!next.running);
  if (next.paused || next.follows) return {AdmissionVerdict::kPassOver};
  const auto gives_way = [&next](const Candidate& other) {
    return !other.reserved && (other.paused || other.priority < next.priority);
  };
  int places = next.places;
  std::uint64_t bytes = next.bytes_to_come;
  std::uint64_t growth = next.bytes_to_grow;
  std::uint64_t available = room.available_bytes;
  int places_of_victims = 0;
  std::uint64_t bytes_of_victims = 0;  // held, and what they have yet to take
  bool alone = true;
  bool all_give_way = true;
  for (const Candidate& other : candidates) {
    if (!other.running) continue;
    alone = false;
    all_give_way &= gives_way(other);
    places += other.places;
    bytes += other.bytes_to_come;
    growth += other.bytes_to_grow;
    if (!gives_way(other)) continue;
    places_of_victims += other.places;
    bytes_of_victims += other.held_bytes + other.bytes_to_come;
  }
  if (next.barred) bytes += growth;
  if (alone || (places <= room.places && bytes <= available)) return {AdmissionVerdict::kAdmit};
  if (next.barred) return {AdmissionVerdict::kStop};
  available += bytes_of_victims;
  if (places - places_of_victims > room.places || (bytes > available && !all_give_way)) {
    return {AdmissionVerdict::kStop};
  }
  const std::optional<std::size_t> victim = CheapestOf(candidates, gives_way);
  if (!victim) return {AdmissionVerdict::kStop};
  return {AdmissionVerdict::kPreempt, *victim};
}

std::vector<RowShare> ShareRows(std::span<const Candidate> candidates, const StepRows& most) {
  std::vector<std::size_t> single;
  std::vector<std::size_t> prompts;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!CanCompute(candidates[i])) continue;
    (IsStream(candidates[i]) ? single : prompts).push_back(i);
  }
  if (single.size() >= static_cast<std::size_t>(most.all)) {
    single.insert(single.end(), prompts.begin(), prompts.end());
    prompts.clear();
  }
  const auto longest_wait = [&candidates](std::size_t a, std::size_t b) {
    if (candidates[a].last_step != candidates[b].last_step) {
      return candidates[a].last_step < candidates[b].last_step;
    }
    return GoesBefore(candidates[a], candidates[b]);
  };
  std::sort(single.begin(), single.end(), longest_wait);
  std::sort(prompts.begin(), prompts.end(), [&candidates](std::size_t a, std::size_t b) {
    return GoesBefore(candidates[a], candidates[b]);
  });
  std::vector<RowShare> shares;
  std::int64_t left = most.all;
  for (const std::size_t i : single) {
    if (left == 0) break;
    shares.push_back({i, 1});
    --left;
  }
  left = std::min<std::int64_t>(left, most.of_prompts);
  for (const std::size_t i : prompts) {
    if (left == 0) break;
    const std::int64_t wanted = candidates[i].end() - candidates[i].computed;
    shares.push_back({i, AlignedRows(candidates[i], std::min(left, wanted))});
    left -= shares.back().rows;
  }
  return shares;
}

std::optional<std::size_t> ChooseVictim(std::span<const Candidate> candidates, std::size_t needy) {
  const Candidate& one = candidates[needy];
  return CheapestOf(candidates, [&one](const Candidate& other) {
    return &other != &one && (other.paused || GoesBefore(one, other));
  });
}

}  // namespace swiftkv
