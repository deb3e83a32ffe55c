// SPDX-License-Identifier: Apache-2.0
// Makes the prompts of a load: the same for the same seed, one by one, in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench_lengths.h"
#include "tools/bench_serve_lexicon.h"
#include "tools/bench_serve_options.h"

namespace swiftkv {

// What a user says next: as ids or as text, never both.
struct ServeTurn {
  std::vector<int> ids;
  std::string text;
  int prompt_tokens = 0;  // of this turn alone
  int output_tokens = 0;  // of the reply, at most
  // Events after which the client leaves, 0: before any; -1: it stays.
  int leave_after = -1;
};

class ServeWorkload {
 public:
  // `options` were validated.
  ServeWorkload(const BenchServeOptions& options, ServeLexicon lexicon);

  // Requests of a conversation.
  int turns() const { return turns_; }

  // Returns a turn of a conversation, both counted from 0. Conversations of the warm-up are others
  // than those that are measured.
  ServeTurn Turn(bool warmup, int conversation, int turn) const;

 private:
  void Append(int tokens, std::uint64_t salt, ServeTurn* turn) const;
  std::uint64_t Salt(const char* purpose, std::uint64_t a, std::uint64_t b) const;

  ServeWorkloadKind kind_;
  ServeWorkloadOptions options_;
  bool ids_;
  bool warm_prefix_;
  double disconnect_share_;
  int turns_ = 1;
  ServeLexicon lexicon_;
  std::vector<RequestLengths> lengths_;  // of sharegpt and alpaca, used in turn
};

}  // namespace swiftkv
