// SPDX-License-Identifier: Apache-2.0
// Keeps the engine's queue filled from the list and collects what comes back.
#include "tools/run_prompts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "base/status_macros.h"
#include "cache/format_names.h"
#include "engine/engine_thread.h"
#include "swiftkv/page_layout.h"
#include "tools/exit_status.h"
#include "tools/interrupt.h"
#include "tools/kv_report.h"
#include "tools/printable_text.h"
#include "tools/progress_line.h"
#include "tools/run_prompts_report.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

// An interrupt is noticed within this time.
constexpr std::chrono::milliseconds kGlance{50};

// Wakes the reader when any stream has something new.
class Bell {
 public:
  void Ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    heard_.notify_one();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    heard_.wait_for(lock, kGlance, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  bool rung_ = false;
};

class PromptRun {
 public:
  PromptRun(const RunOptions& options, const ModelStack& stack,
            const std::vector<PromptItem>& items)
      : options_(options),
        stack_(stack),
        items_(items),
        streams_(items.size()),
        replies_(items.size()),
        progress_("replies", !options.output.quiet && !options.output.json) {}

  Result<int> Run() {
    SKV_ASSIGN_OR_RETURN(const PageFormat format, PageFormatOf(options_.cache));
    EngineLimits limits = options_.batch;
    limits.ceiling = options_.cache.quality;
    limits.forgetting = ForgettingOf(options_.forgetting);
    const EngineParts parts = {.model = stack_.model.get(),
                               .vocabulary = stack_.vocabulary.get(),
                               .cache = stack_.cache.get(),
                               .format = NamesOf(format),
                               .figures = stack_.query_figures};
    const auto start = std::chrono::steady_clock::now();
    SKV_ASSIGN_OR_RETURN(engine_, EngineThread::Start(parts, limits));
    while (done_ < items_.size() && !output_.reader_left()) {
      SubmitSome();
      bell_.Wait();
      if (Interrupted()) engine_->Shutdown();
      ReadAll();
      PrintReady();
    }
    engine_->Shutdown();
    progress_.Clear();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return Finish(seconds.count());
  }

 private:
  // As many at a time as the queue takes, so that none is refused for want of room in it.
  void SubmitSome() {
    while (next_ < items_.size() && open_ < static_cast<std::size_t>(options_.batch.max_queue)) {
      const std::size_t i = next_++;
      replies_[i].choices.resize(static_cast<std::size_t>(items_[i].choices));
      Result<TokenStream> stream = Submit(items_[i]);
      if (!stream.ok()) {
        replies_[i].status = stream.status();
        replies_[i].ended = true;
        ++done_;
        continue;
      }
      streams_[i] = std::move(stream).value();
      ++open_;
    }
  }

  Result<TokenStream> Submit(const PromptItem& item) {
    EngineRequest request;
    SKV_ASSIGN_OR_RETURN(request.prompt, PromptTokens(stack_, item.system, item.prompt));
    request.sampling = item.sampling;
    request.max_tokens = item.generation.max_tokens;
    request.priority = item.priority;
    request.choices = item.choices;
    request.buffered_events = 0;
    request.on_ready = [this] { bell_.Ring(); };
    return engine_->Submit(std::move(request));
  }

  void ReadAll() {
    for (std::size_t i = 0; i < next_; ++i) {
      if (replies_[i].ended) continue;
      TokenEvent event;
      StreamOutcome outcome;
      while ((outcome = streams_[i].Next(&event, std::chrono::milliseconds(0))) ==
             StreamOutcome::kEvent) {
        Add(event, &replies_[i]);
      }
      if (outcome != StreamOutcome::kEnd) continue;
      replies_[i].status = streams_[i].status();
      replies_[i].usage = streams_[i].usage();
      replies_[i].ended = true;
      ++done_;
      --open_;
    }
    progress_.Update(static_cast<double>(done_) / static_cast<double>(items_.size()),
                     fmt::format("{} of {}", done_, items_.size()));
  }

  static void Add(const TokenEvent& event, PromptReply* reply) {
    ChoiceReply& choice = reply->choices[static_cast<std::size_t>(event.choice)];
    choice.text += event.text;
    if (event.token != kNoToken) choice.tokens.push_back(event.token);
    if (event.finish) choice.finish = *event.finish;
  }

  // Replies go out in the order of the prompts, each once all before it have.
  void PrintReady() {
    if (options_.output.json) return;
    for (; printed_ < items_.size() && replies_[printed_].ended; ++printed_) {
      progress_.Clear();
      const PromptReply& reply = replies_[printed_];
      if (!reply.status.ok()) {
        fmt::print(stderr, "swiftkv run: prompt {}: {}\n", printed_ + 1,
                   PrintableLine(reply.status.message()));
      }
      const std::string text = ReplyText(printed_ + 1, items_[printed_], reply);
      output_.Write(::isatty(STDOUT_FILENO) == 1 ? PrintableReply(text) : text);
    }
  }

  Result<int> Finish(double seconds) {
    const PromptTotals totals = {.engine = engine_->Snapshot(), .seconds = seconds};
    SKV_ASSIGN_OR_RETURN(const KvReport kv, MakeKvReport(stack_));
    if (options_.output.json) {
      output_.Write(PromptsJson(replies_, totals, kv, stack_.path) + "\n");
    } else if (!options_.output.quiet) {
      fmt::print(stderr, "{}", PromptsFooter(replies_, totals, kv));
    }
    SKV_RETURN_IF_ERROR(output_.status());
    if (Interrupted()) return kExitInterrupted;
    const bool failed = std::any_of(replies_.begin(), replies_.end(),
                                    [](const PromptReply& reply) { return !reply.status.ok(); });
    return failed ? kExitFailure : kExitSuccess;
  }

  const RunOptions& options_;
  const ModelStack& stack_;
  const std::vector<PromptItem>& items_;
  Bell bell_;  // outlives the engine, which rings it
  std::unique_ptr<EngineThread> engine_;
  std::vector<TokenStream> streams_;  // [items]
  std::vector<PromptReply> replies_;  // [items]
  std::size_t next_ = 0;              // to submit
  std::size_t open_ = 0;              // submitted and not ended
  std::size_t done_ = 0;
  std::size_t printed_ = 0;
  StandardOutput output_;
  ProgressLine progress_;
};

}  // namespace

Result<int> RunPrompts(const RunOptions& options, const ModelStack& stack,
                       const std::vector<PromptItem>& items) {
  return PromptRun(options, stack, items).Run();
}

}  // namespace swiftkv
