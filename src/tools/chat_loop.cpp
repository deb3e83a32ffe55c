// SPDX-License-Identifier: Apache-2.0
// Reads messages, generates replies and keeps the transcript.
#include "tools/chat_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/status_macros.h"
#include "model/chat_transcript.h"
#include "tools/exit_status.h"
#include "tools/input_lines.h"
#include "tools/interrupt.h"
#include "tools/prompt_source.h"
#include "tools/reply_turn.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

constexpr const char* kHelp =
    "/exit    leave (also Ctrl-D)\n"
    "/reset   start a new chat\n"
    "/help    show this\n"
    "A line that ends with \\ goes on in the next one. Ctrl-C stops a reply.\n";

class Chat {
 public:
  Chat(const RunOptions& options, const ModelStack& stack)
      : options_(options),
        stack_(stack),
        transcript_(*stack.chat_template, options.prompt.system),
        turn_(&options, &stack, &output_, /*short_footer=*/true),
        lines_(STDIN_FILENO),
        shows_prompt_(::isatty(STDIN_FILENO) == 1 && !options.output.json) {}

  Result<int> Run(const std::string& first_message) {
    if (shows_prompt_ && !options_.output.quiet) fmt::print(stderr, "/help lists the commands.\n");
    if (!first_message.empty()) SKV_RETURN_IF_ERROR(Answer(first_message));
    std::string message;
    while (!output_.reader_left()) {
      switch (NextMessage(&message)) {
        case LineOutcome::kEnd:
          if (shows_prompt_) output_.Write("\n");
          return kExitSuccess;
        case LineOutcome::kFailed:
          return Status::Internal("standard input cannot be read: " + lines_.error());
        case LineOutcome::kInterrupted:
          if (!shows_prompt_ || ++interrupts_ > 1) return kExitInterrupted;
          ClearInterrupt();
          fmt::print(stderr, "\nCtrl-C again, Ctrl-D or /exit leaves.\n");
          continue;
        case LineOutcome::kLine:
          break;
      }
      interrupts_ = 0;
      if (message == "/exit") return kExitSuccess;
      if (HandledCommand(message)) continue;
      SKV_RETURN_IF_ERROR(Answer(message));
      if (Interrupted()) return kExitInterrupted;
    }
    return kExitSuccess;
  }

 private:
  LineOutcome NextMessage(std::string* message) {
    message->clear();
    const char* prompt = "> ";
    while (true) {
      if (shows_prompt_) output_.Write(prompt);
      std::string line;
      const LineOutcome outcome = lines_.Next(&line);
      if (outcome != LineOutcome::kLine) return outcome;
      const bool continues = line.ends_with('\\');
      if (continues) line.back() = '\n';
      *message += line;
      if (!continues) return outcome;
      prompt = ". ";
    }
  }

  bool HandledCommand(const std::string& message) {
    if (message == "/help") {
      fmt::print(stderr, "{}", kHelp);
    } else if (message == "/reset") {
      transcript_ = ChatTranscript(*stack_.chat_template, options_.prompt.system);
      stack_.session->Reset();
    } else {
      return message.find_first_not_of(" \t") == std::string::npos;
    }
    return true;
  }

  // A message that cannot be answered is told and forgotten; the chat goes on.
  Status Answer(const std::string& message) {
    ChatTranscript next = transcript_;
    const Result<GenerationResult> result = Generate(message, &next);
    SKV_RETURN_IF_ERROR(output_.status());
    if (!result.ok()) {
      if (!shows_prompt_) return result.status();
      fmt::print(stderr, "{}; /reset starts a new chat\n", result.status().message());
      return Status::Ok();
    }
    next.AddReply(result->tokens);
    transcript_ = std::move(next);
    // Somebody at a terminal may go on; a script was told to stop.
    if (result->reason == FinishReason::kCancelled && shows_prompt_) ClearInterrupt();
    return Status::Ok();
  }

  Result<GenerationResult> Generate(const std::string& message, ChatTranscript* next) {
    SKV_RETURN_IF_ERROR(CheckUtf8(message, "a message"));
    SKV_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, next->AddUserMessage(message));
    return turn_.Run(std::move(prompt));
  }

  const RunOptions& options_;
  const ModelStack& stack_;
  ChatTranscript transcript_;
  StandardOutput output_;
  ReplyTurn turn_;
  InputLines lines_;
  bool shows_prompt_;
  int interrupts_ = 0;  // since the last line
};

}  // namespace

Result<int> RunChat(const RunOptions& options, const ModelStack& stack,
                    const std::string& first_message) {
  if (stack.chat_template == nullptr) {
    return Status::Unsupported(
        fmt::format("a chat needs a chat template, which this model lacks; give a prompt with -p "
                    "to run it without one; model {}",
                    stack.path));
  }
  return Chat(options, stack).Run(first_message);
}

}  // namespace swiftkv
