// SPDX-License-Identifier: Apache-2.0
// Draws every part of every prompt from a generator of its own, seeded by what the part is.
#include "tools/bench_serve_workload.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace swiftkv {
namespace {

constexpr int kDrawnLengths = 4096;

// SplitMix64's finaliser: near seeds give far generators.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

ServeWorkload::ServeWorkload(const BenchServeOptions& options, ServeLexicon lexicon)
    : kind_(FindServeWorkload(options.workload.workload).value()),
      options_(options.workload),
      ids_(options.sends_ids()),
      warm_prefix_(options.load.warm_prefix),
      disconnect_share_(options.load.disconnect_share),
      lexicon_(std::move(lexicon)) {
  if (kind_ == ServeWorkloadKind::kMultiTurn) turns_ = options_.turns;
  if (kind_ != ServeWorkloadKind::kShareGpt && kind_ != ServeWorkloadKind::kAlpaca) return;
  const char* name = kind_ == ServeWorkloadKind::kAlpaca ? "alpaca" : "sharegpt";
  lengths_ = DrawLengths(FindLengths(name).value(), kDrawnLengths,
                         static_cast<std::uint64_t>(options_.seed));
}

std::uint64_t ServeWorkload::Salt(const char* purpose, std::uint64_t a, std::uint64_t b) const {
  std::uint64_t salt = Mix(static_cast<std::uint64_t>(options_.seed));
  for (const char* c = purpose; *c != '\0'; ++c) salt = Mix(salt ^ static_cast<unsigned char>(*c));
  return Mix(Mix(salt ^ a) ^ b);
}

void ServeWorkload::Append(int tokens, std::uint64_t salt, ServeTurn* turn) const {
  std::mt19937_64 random(salt);
  turn->prompt_tokens += tokens;
  if (ids_) {
    for (int i = 0; i < tokens; ++i) {
      turn->ids.push_back(lexicon_.ids[random() % lexicon_.ids.size()]);
    }
    return;
  }
  const int words = std::max(static_cast<int>(std::lround(tokens / lexicon_.tokens_per_word)),
                             tokens > 0 ? 1 : 0);
  for (int i = 0; i < words; ++i) {
    if (!turn->text.empty()) turn->text += ' ';
    turn->text += lexicon_.words[random() % lexicon_.words.size()];
  }
}

ServeTurn ServeWorkload::Turn(bool warmup, int conversation, int turn) const {
  const auto number = static_cast<std::uint64_t>(conversation);
  const auto step = static_cast<std::uint64_t>(turn);
  const char* const own = warmup ? "warm-up" : "own";
  ServeTurn made;
  made.output_tokens = options_.output_tokens;
  if (!lengths_.empty()) {
    const RequestLengths& lengths = lengths_[number % lengths_.size()];
    Append(lengths.prompt, Salt(own, number, step), &made);
    made.output_tokens = lengths.output;
  } else if (kind_ == ServeWorkloadKind::kUnique) {
    Append(options_.prefix_tokens + options_.own_tokens, Salt(own, number, step), &made);
  } else {
    const bool other_prefix = warmup && !warm_prefix_;
    if (turn == 0) Append(options_.prefix_tokens, Salt("prefix", other_prefix ? 1 : 0, 0), &made);
    Append(options_.own_tokens, Salt(own, number, step), &made);
  }
  if (warmup || disconnect_share_ <= 0) return made;
  std::mt19937_64 random(Salt("leave", number, step));
  const bool leaves = std::ldexp(static_cast<double>(random() >> 11), -53) < disconnect_share_;
  if (leaves) {
    made.leave_after = static_cast<int>(random() % static_cast<std::uint64_t>(made.output_tokens));
  }
  return made;
}

}  // namespace swiftkv
