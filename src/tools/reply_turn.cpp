// SPDX-License-Identifier: Apache-2.0
// Connects a generation's callbacks with the terminal.
#include "tools/reply_turn.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/status_macros.h"
#include "tools/interrupt.h"
#include "tools/printable_text.h"
#include "tools/progress_line.h"
#include "tools/run_report.h"

namespace swiftkv {

ReplyTurn::ReplyTurn(const RunOptions* options, const ModelStack* stack, StandardOutput* output,
                     bool short_footer)
    : options_(options),
      stack_(stack),
      output_(output),
      short_footer_(short_footer),
      is_terminal_(::isatty(STDOUT_FILENO) == 1) {}

bool ReplyTurn::Stream(std::string_view text) {
  if (options_->output.json) return true;
  return is_terminal_ ? output_->Write(PrintableReply(text)) : output_->Write(text);
}

void ReplyTurn::PrintFooter(const std::string& footer) const {
  const bool dim = ::isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  // A blank line sets the footer off the reply where both go to one screen.
  const char* gap = is_terminal_ && !short_footer_ ? "\n" : "";
  fmt::print(stderr, "{}{}{}{}", gap, dim ? "\x1b[2m" : "", footer, dim ? "\x1b[0m" : "");
}

Result<GenerationResult> ReplyTurn::Run(std::vector<TokenId> prompt) {
  const OutputOptions& shown = options_->output;
  ProgressLine progress("prompt", !shown.quiet && !shown.json);
  GenerationCallbacks callbacks;
  callbacks.on_prompt = [&progress](std::size_t done, std::size_t total) {
    progress.Update(static_cast<double>(done) / static_cast<double>(total),
                    fmt::format("{} of {} tokens", done, total));
    if (done == total) progress.Clear();
  };
  callbacks.on_text = [this](std::string_view text) { return Stream(text); };

  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling = options_->sampling;
  request.max_tokens = options_->generation.max_tokens;
  request.forgetting = stack_->forgetting;
  SKV_ASSIGN_OR_RETURN(GenerationResult result,
                       stack_->session->Generate(request, callbacks, InterruptFlag()));
  progress.Clear();
  SKV_ASSIGN_OR_RETURN(const KvReport kv, MakeKvReport(*stack_));
  if (shown.json) {
    output_->Write(RunJson(result, kv, stack_->path) + "\n");
  } else {
    if (!result.text.ends_with('\n')) output_->Write("\n");
    if (!shown.quiet) PrintFooter(short_footer_ ? TurnFooter(result, kv) : RunFooter(result, kv));
  }
  SKV_RETURN_IF_ERROR(output_->status());
  return result;
}

}  // namespace swiftkv
