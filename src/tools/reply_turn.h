// SPDX-License-Identifier: Apache-2.0
// Generates one reply in front of the user: streams text, shows progress, then tells the cost.
#pragma once

#include <vector>

#include "engine/generation.h"
#include "swiftkv/status.h"
#include "tools/model_stack.h"
#include "tools/run_options.h"
#include "tools/standard_output.h"

namespace swiftkv {

class ReplyTurn {
 public:
  // All must outlive the turns. `short_footer`: one line, for a chat.
  ReplyTurn(const RunOptions* options, const ModelStack* stack, StandardOutput* output,
            bool short_footer);

  // Errors: those of GenerationSession::Generate, and standard output's.
  Result<GenerationResult> Run(std::vector<TokenId> prompt);

 private:
  bool Stream(std::string_view text);
  void PrintFooter(const std::string& footer) const;

  const RunOptions* options_;
  const ModelStack* stack_;
  StandardOutput* output_;
  bool short_footer_;
  bool is_terminal_;  // standard output
};

}  // namespace swiftkv
