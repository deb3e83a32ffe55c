// SPDX-License-Identifier: Apache-2.0
// Loads, generates and reports; the only place of `run` that turns errors into exit statuses.
#include "tools/run_command.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/status_macros.h"
#include "model/json_grammar.h"
#include "tools/chat_loop.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/kv_settlement.h"
#include "tools/model_stack.h"
#include "tools/options_json.h"
#include "tools/process_log.h"
#include "tools/progress_line.h"
#include "tools/prompt_source.h"
#include "tools/reply_turn.h"
#include "tools/run_options.h"
#include "tools/run_prompt_list.h"
#include "tools/run_prompts.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

void LogOptions(RunOptions options) {
  JsonVisitor visitor;
  VisitOptions(visitor, options);
  spdlog::info("options {}", JsonLine(visitor.object()));
}

void LogModel(const ModelStack& stack) {
  const LanguageModel& model = *stack.model;
  const ModelMemory memory = model.memory();
  spdlog::info("model {}: {}, {} layers, context {}, {} threads", stack.path,
               model.spec().architecture, model.spec().layers.size(), model.context(),
               model.threads());
  spdlog::info("weights {} mapped, {} repacked, {} packed; activations {}; KV memory at most {}",
               FormatByteSize(memory.mapped_weights_bytes),
               FormatByteSize(memory.repacked_weights_bytes),
               FormatByteSize(memory.packed_weights_bytes), FormatByteSize(memory.activation_bytes),
               FormatByteSize(stack.cache->Balance().limit_bytes));
}

// Puts the text of the grammar into the sampling options.
Status ResolveGrammar(RunOptions* options) {
  const GrammarOptions& grammar = options->grammar;
  if (!grammar.file.empty()) {
    SKV_ASSIGN_OR_RETURN(options->sampling.grammar, ReadTextFile(grammar.file));
  }
  if (!grammar.json_schema.empty()) {
    SKV_ASSIGN_OR_RETURN(options->sampling.grammar, GrammarFromJsonSchema(grammar.json_schema));
  }
  return Status::Ok();
}

Result<ModelStack> Load(const RunOptions& options) {
  ProgressLine progress("loading", !options.output.quiet && !options.output.json);
  return LoadModelStack(options, [&progress](double done) {
    progress.Update(done, "");
    return !Interrupted();
  });
}

Result<int> Answer(const RunOptions& options, const ModelStack& stack, const std::string& prompt) {
  SKV_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                       PromptTokens(stack, options.prompt.system, prompt));
  StandardOutput output;
  ReplyTurn turn(&options, &stack, &output, /*short_footer=*/false);
  SKV_ASSIGN_OR_RETURN(const GenerationResult result, turn.Run(std::move(tokens)));
  return Interrupted() && result.reason == FinishReason::kCancelled ? kExitInterrupted
                                                                    : kExitSuccess;
}

Result<int> Run(RunOptions options) {
  StartLog(options.output.verbose);
  LogOptions(options);
  SKV_RETURN_IF_ERROR(CheckUtf8(options.prompt.system, "the system message"));
  const bool many = options.prompt.many.has_value();
  const bool chat = WantsChat(options.prompt);
  std::string prompt;
  if (many) {
    SKV_ASSIGN_OR_RETURN(prompt, ReadPromptFile(*options.prompt.many));
  } else if (!chat || options.prompt.text || options.prompt.file) {
    SKV_ASSIGN_OR_RETURN(prompt, ReadPrompt(options.prompt));
  }
  SKV_RETURN_IF_ERROR(ResolveGrammar(&options));
  std::vector<PromptItem> items;
  if (many) {
    SKV_ASSIGN_OR_RETURN(items, ParsePromptList(prompt, options));
  }
  const bool show_progress = !options.output.quiet && !options.output.json;
  SKV_ASSIGN_OR_RETURN(const KvChoice choice, SettleKvFormat("run", show_progress, &options));
  SKV_ASSIGN_OR_RETURN(ModelStack stack, Load(options));
  stack.kv_choice = choice;
  LogModel(stack);
  if (many) return RunPrompts(options, stack, items);
  return chat ? RunChat(options, stack, prompt) : Answer(options, stack, prompt);
}

}  // namespace

int RunCommand(std::span<const char* const> arguments) {
  const Result<RunOptions> options = ParseRunOptions(arguments);
  if (!options.ok()) return ReportUsage("run", options.status());
  const Result<int> exit_status = Run(*options);
  return exit_status.ok() ? *exit_status : ReportFailure("run", exit_status.status());
}

}  // namespace swiftkv
