// SPDX-License-Identifier: Apache-2.0
// Draws the lengths of requests that benches of memory and capacity serve.
//
// Two distributions stand for public conversations: log-normal, with the mean lengths that
// PagedAttention's authors state for ShareGPT and Alpaca (Kwon et al., arXiv:2309.06180, section
// 6.1). The same name, count and seed give the same lengths on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "swiftkv/status.h"

namespace swiftkv {

// No request has more tokens, whatever was drawn: its prompt and then its output are cut.
inline constexpr int kMostRequestTokens = 2048;

struct RequestLengths {
  int prompt = 0;  // tokens, >= 1
  int output = 0;  // tokens, >= 1

  int total() const { return prompt + output; }

  friend bool operator==(const RequestLengths&, const RequestLengths&) = default;
};

struct LengthDistribution {
  std::string name;        // as it was given
  double mean_prompt = 0;  // tokens, before the cut at kMostRequestTokens
  double mean_output = 0;
  double sigma = 0;  // of the logarithm; 0: every request is as long as the mean
};

// Returns the distribution called `sharegpt`, `alpaca` or `fixed:N`: N tokens, the first half of
// them the prompt. Errors: InvalidArgument with the names.
Result<LengthDistribution> FindLengths(const std::string& name);

// Returns what FindLengths takes, for help.
std::string LengthNames();

// Returns the lengths of `count` requests, in the order in which they come.
std::vector<RequestLengths> DrawLengths(const LengthDistribution& distribution, int count,
                                        std::uint64_t seed);

}  // namespace swiftkv
