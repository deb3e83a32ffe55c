// SPDX-License-Identifier: Apache-2.0
// Fills a sequence through a session, so that steps, scratch and cache are those of a prompt.
#include "tools/inspect_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "tools/calibration_text.h"
#include "tools/interrupt.h"
#include "tools/kv_settlement.h"
#include "tools/model_stack.h"
#include "tools/progress_line.h"
#include "tools/run_options.h"

namespace swiftkv {
namespace {

Result<std::vector<TokenId>> TextOf(const ModelStack& stack, int count) {
  const int most = stack.model->context() - 1;  // a session keeps room for a reply's token
  if (count > most) {
    return Status::InvalidArgument(
        fmt::format("--tokens accepts up to {} in a context of {}, got {}", most,
                    stack.model->context(), count));
  }
  if (count == 0) count = std::min(kInspectedTokens, most);
  SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> text,
                       stack.vocabulary->EncodePrompt(CalibrationText()));
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(text[static_cast<std::size_t>(i) % text.size()]);
  }
  return tokens;
}

Status Fill(const ModelStack& stack, std::vector<TokenId> tokens, ProgressLine* progress) {
  GenerationRequest request;
  request.prompt = std::move(tokens);
  request.max_tokens = 0;
  GenerationCallbacks callbacks;
  callbacks.on_prompt = [progress](std::size_t done, std::size_t total) {
    progress->Update(static_cast<double>(done) / static_cast<double>(total),
                     fmt::format("{} of {} tokens", done, total));
  };
  SKV_ASSIGN_OR_RETURN(const GenerationResult result,
                       stack.session->Generate(request, callbacks, InterruptFlag()));
  if (result.reason == FinishReason::kCancelled) {
    return Status::Cancelled("inspecting was stopped");
  }
  if (result.limit == LengthLimit::kMemory) {
    return Status::ResourceExhausted(fmt::format(
        "--kv-memory is full after {} of the {} tokens; allow more, or fewer --tokens than: {}",
        stack.session->Length(), request.prompt.size(), request.prompt.size()));
  }
  return Status::Ok();
}

}  // namespace

Result<MemoryView> InspectMemory(const InspectOptions& options) {
  RunOptions run;
  run.model = options.model;
  run.cache = options.cache;
  ProgressLine progress("inspecting", !options.json);
  SKV_ASSIGN_OR_RETURN(const KvChoice choice, SettleKvFormat("inspect", !options.json, &run));
  SKV_ASSIGN_OR_RETURN(ModelStack stack, LoadModelStack(run, [&progress](double done) {
                         progress.Update(done, "loading");
                         return !Interrupted();
                       }));
  stack.kv_choice = choice;
  SKV_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TextOf(stack, options.tokens));
  SKV_RETURN_IF_ERROR(Fill(stack, std::move(tokens), &progress));
  progress.Clear();
  return MakeMemoryView(stack);
}

}  // namespace swiftkv
