// SPDX-License-Identifier: Apache-2.0
// Loads, listens, serves; the only place of `serve` that turns errors into exit statuses.
#include "tools/serve_command.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/status_macros.h"
#include "engine/engine_thread.h"
#include "server/api.h"
#include "server/http_server.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/interrupt.h"
#include "tools/key_file.h"
#include "tools/kv_settlement.h"
#include "tools/model_stack.h"
#include "tools/options_json.h"
#include "tools/process_log.h"
#include "tools/progress_line.h"
#include "tools/serve_options.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

void LogOptions(ServeOptions options) {
  options.access = {};  // keys are secrets
  JsonVisitor visitor;
  VisitOptions(visitor, options);
  spdlog::info("options {}", JsonLine(visitor.object()));
}

Result<ModelStack> Load(const ServeOptions& options) {
  RunOptions run;
  run.model = options.model;
  run.cache = options.cache;
  run.forgetting = options.forgetting;
  const bool show_progress = !options.output.json;
  SKV_ASSIGN_OR_RETURN(const KvChoice choice, SettleKvFormat("serve", show_progress, &run));
  ProgressLine progress("loading", show_progress);
  SKV_ASSIGN_OR_RETURN(ModelStack stack, LoadModelStack(run, [&progress](double done) {
                         progress.Update(done, "");
                         return !Interrupted();
                       }));
  stack.kv_choice = choice;
  return stack;
}

ServedModel Describe(const ServeOptions& options, const ModelStack& stack, EngineThread* engine,
                     const KvFormat& format) {
  ServedModel model;
  model.name = options.output.model_name.empty() ? std::filesystem::path(stack.path).stem().string()
                                                 : options.output.model_name;
  model.engine = engine;
  model.vocabulary = stack.vocabulary.get();
  model.chat_template = stack.chat_template.get();
  model.kv_format = format.key == format.value ? format.key : format.key + "/" + format.value;
  model.context = stack.model->context();
  model.created = std::time(nullptr);
  return model;
}

Status TellListening(const ServeOptions& options, const std::string& model, int port) {
  const std::string& host = options.http.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  const std::string url = fmt::format("http://{}:{}", is_v6 ? "[" + host + "]" : host, port);
  if (!options.output.json) {
    fmt::print(stderr, "swiftkv serve: {} on {}\n", model, url);
    return Status::Ok();
  }
  StandardOutput output;
  output.Write(JsonLine({{"url", url}, {"port", port}, {"model", model}}) + "\n");
  return output.status();
}

// Neither says anything of what requests held.
void LogLoaded(const ServedModel& model, const EngineSnapshot& start) {
  spdlog::info("serving {}: context {} tokens, KV in {} within {}", model.name, model.context,
               model.kv_format, FormatByteSize(start.balance.limit_bytes));
}

void LogServed(const EngineSnapshot& end) {
  spdlog::info(
      "served {} requests: {} prompt tokens, {} of them cached, {} generated, {} steps, "
      "{} preemptions, at most {} of KV",
      end.finished_requests, end.prompt_tokens, end.cached_tokens, end.generated_tokens, end.steps,
      end.preemptions, FormatByteSize(end.balance.peak_bytes));
}

Result<AccessOptions> WithKeysOfFiles(AccessOptions access) {
  SKV_RETURN_IF_ERROR(AppendKeysOfFile(access.api_key_file, &access.api_keys));
  SKV_RETURN_IF_ERROR(AppendKeysOfFile(access.admin_key_file, &access.admin_keys));
  return access;
}

Result<int> Serve(const ServeOptions& options) {
  StartLog(options.output.verbose);
  LogOptions(options);
  SKV_ASSIGN_OR_RETURN(const AccessOptions access, WithKeysOfFiles(options.access));
  SKV_ASSIGN_OR_RETURN(const ModelStack stack, Load(options));
  const KvFormat format = {.key = stack.kv_choice.format.key->info().name,
                           .value = stack.kv_choice.format.value->info().name};
  const EngineParts parts = {.model = stack.model.get(),
                             .vocabulary = stack.vocabulary.get(),
                             .cache = stack.cache.get(),
                             .format = format,
                             .figures = stack.query_figures};
  EngineLimits limits = options.limits;
  limits.ceiling = options.cache.quality;
  limits.forgetting = ForgettingOf(options.forgetting);
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<EngineThread> engine,
                       EngineThread::Start(parts, limits));
  const ServedModel model = Describe(options, stack, engine.get(), format);
  Api api(model, {.keys = access.api_keys, .admin_keys = access.admin_keys});
  HttpOptions http = options.http;
  http.stop_signals = {SIGTERM, SIGINT};
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server, HttpServer::Listen(http, &api));
  if (Interrupted()) return kExitSuccess;
  SKV_RETURN_IF_ERROR(TellListening(options, model.name, server->port()));
  LogLoaded(model, engine->Snapshot());
  server->Run();
  LogServed(engine->Snapshot());
  return kExitSuccess;
}

}  // namespace

int ServeCommand(std::span<const char* const> arguments) {
  const Result<ServeOptions> options = ParseServeOptions(arguments);
  if (!options.ok()) return ReportUsage("serve", options.status());
  AlsoHandleTermination();
  const Result<int> exit_status = Serve(*options);
  if (exit_status.ok()) return *exit_status;
  // Told to stop while it loaded: as if it had served.
  if (Interrupted() && exit_status.status().code() == StatusCode::kCancelled) return kExitSuccess;
  return ReportFailure("serve", exit_status.status());
}

}  // namespace swiftkv
