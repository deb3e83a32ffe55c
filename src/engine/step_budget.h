// SPDX-License-Identifier: Apache-2.0
// Bounds the rows of prompts in a step so that streams do not stall while prompts are computed.
// Layer: engine.
//
// Owner: the engine's thread. Reads no clock: it is told what steps took. What a row of a prompt
// takes depends on the model, the machine, the depth of contexts and on how many rows share the
// work of a step, so the last step with a prompt is the best guess for the next one; every such
// step is learnt from, so that no guess outlives the next step. Numbers of rows that come again are
// cheaper than new ones, for which the model makes a graph and kernels, so they are coarse.
#pragma once

#include <optional>

namespace swiftkv {

class StepBudget {
 public:
  // Steps that nobody waits for may have `most_rows` rows.
  explicit StepBudget(int most_rows) : most_rows_(most_rows) {}

  // Returns how many rows of prompts the next step may have beside one of each stream. `streams`:
  // some replies are under way. Where streams alone take as long as they should wait, prompts get
  // as much time again: they must go on too.
  int PromptRows(bool streams) const;

  // Tells what a step took, in seconds, of which `prompt_rows` rows were of prompts. `streams` as
  // it was for that step.
  void Learn(bool streams, int prompt_rows, double seconds);

 private:
  int most_rows_;
  double stream_seconds_ = 0;          // of the last step of streams alone
  std::optional<double> row_seconds_;  // of a prompt's row in the last step that had any
};

}  // namespace swiftkv
