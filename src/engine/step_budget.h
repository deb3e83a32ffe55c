// SPDX-License-Identifier: Apache-2.0
// Bounds the rows of a step so that streams do not stall while prompts are computed. Layer: engine.
//
// Owner: the engine's thread. Reads no clock: it is told what steps took. How long a row takes
// depends on the model, the machine, the depth of contexts and on how many rows share the work of a
// step, so the last step that was like the next one is the best guess.
#pragma once

namespace swiftkv {

// The longest that a stream should wait for a token because of a prompt, in seconds; room is left
// below it for what a guess is wrong by.
inline constexpr double kStallSeconds = 0.25;

class StepBudget {
 public:
  // Of at most `most_rows` rows, which suit steps that nobody waits for.
  explicit StepBudget(int most_rows) : most_rows_(most_rows) {}

  // Returns how many rows the next step may have. `streams`: some replies are under way.
  int Rows(bool streams) const;

  // Tells what a step took, in seconds.
  void Learn(int rows, double seconds);

 private:
  int most_rows_;
  double row_seconds_ = 0;  // of the last step with a prompt in it; 0: there was none yet
};

}  // namespace swiftkv
