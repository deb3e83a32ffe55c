// SPDX-License-Identifier: Apache-2.0
// Defines the seam of forgetting: a method only scores tokens; planner and compactor act on the
// scores.
//
// Implementations are pure functions of their inputs: they hold no state, read no clock, touch no
// cache. Higher is kept longer. Each file states the formula and its paper in its first comment.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "policy/budget_split.h"
#include "policy/score_inputs.h"
#include "swiftkv/status.h"

namespace swiftkv {

// One parameter that a policy takes; every parameter has a default.
struct ParameterSpec {
  const char* name;
  double default_value;
  double least;
  double most;
  bool whole;  // a whole number
};

struct PolicyInfo {
  const char* name;         // "sink_recent": the flag's word
  const char* description;  // one line for help and docs
  const char* paper;        // title and year, or "control"
  ScoreNeeds needs;
  bool query_agnostic;  // the scores do not depend on the question, so a compressed prefix may be
                        // shared
  BudgetSplit usual_split;  // how a budget is divided where nobody says, by what was measured
  std::span<const ParameterSpec> parameters;
};

// From --policy NAME:key=value,...; ordered, so that its text is canonical.
using PolicyParameters = std::map<std::string, double>;

class EvictionPolicy {
 public:
  virtual const PolicyInfo& info() const = 0;

  // Errors: InvalidArgument naming the parameter, its value and what is accepted.
  virtual Status Validate(const PolicyParameters& parameters) const = 0;

  // Returns how many of the newest queries ScoreInputs::probabilities are to be summed over, as far
  // as there are so many; 0 for methods that do not look at them.
  virtual int ObservedQueries(const PolicyParameters&) const { return 0; }

  // Writes one score per (kv head, token) into `scores`, [kv_heads, num_tokens]. Parameters were
  // validated. Every score is finite.
  virtual void Score(const ScoreInputs& inputs, const PolicyParameters& parameters,
                     std::span<float> scores) const = 0;

 protected:
  ~EvictionPolicy() = default;
};

// Lists every method; flags, help, docs, tests, benches and eval walk this table.
std::span<const EvictionPolicy* const> AllPolicies();

// Returns the method called `name`, or InvalidArgument with the list of names.
Result<const EvictionPolicy*> FindPolicy(std::string_view name);

}  // namespace swiftkv
