// SPDX-License-Identifier: Apache-2.0
// Drives the client: what is asked first, the warm-up, then the load that is measured.
#include "tools/bench_serve_run.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "tools/bench_serve_address.h"
#include "tools/bench_serve_arrivals.h"
#include "tools/bench_serve_client.h"
#include "tools/bench_serve_lexicon.h"
#include "tools/bench_serve_request.h"
#include "tools/bench_serve_workload.h"

namespace swiftkv {
namespace {

using Json = nlohmann::json;

// What is asked before the load is small; a server that does not answer it gets defaults.
constexpr std::chrono::seconds kQuestionTimeout{10};
// Where a server refuses for now without saying for how long.
constexpr double kRetrySeconds = 1;
constexpr double kMostRetrySeconds = 60;
// A client of a closed loop that failed sends its next after this: a server that is gone would only
// be asked some thousand times a second.
constexpr std::chrono::milliseconds kPauseAfterFailure{100};

ServeClock::duration ToDuration(double seconds) {
  return std::chrono::duration_cast<ServeClock::duration>(std::chrono::duration<double>(seconds));
}

double SecondsSince(ServeClock::time_point origin) {
  return std::chrono::duration<double>(ServeClock::now() - origin).count();
}

using Tick = std::function<void()>;

// Returns the first model that the server lists; empty where it lists none.
std::string AskModel(ServeClient* client, const Tick& tick) {
  const ServedReply reply =
      client->Ask({.post = false, .path = "/v1/models", .timeout = kQuestionTimeout}, tick);
  const Json models = Json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  if (reply.status != 200 || !models.is_object()) return {};
  const auto data = models.find("data");
  if (data == models.end() || !data->is_array() || data->empty()) return {};
  const Json& first = data->front();
  const bool named = first.is_object() && first.contains("id") && first["id"].is_string();
  return named ? first["id"].get<std::string>() : "";
}

std::optional<std::vector<int>> AskTokens(ServeClient* client, const std::string& model,
                                          const std::string& text, const Tick& tick) {
  // The names of vLLM and of llama-server; each ignores the other's.
  Json body = {
      {"prompt", text}, {"content", text}, {"add_special_tokens", false}, {"add_special", false}};
  if (!model.empty()) body["model"] = model;
  const ServedReply reply =
      client->Ask({.path = "/tokenize", .body = body.dump(), .timeout = kQuestionTimeout}, tick);
  const Json told = Json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  if (reply.status != 200 || !told.is_object()) return std::nullopt;
  const auto tokens = told.find("tokens");
  if (tokens == told.end() || !tokens->is_array()) return std::nullopt;
  std::vector<int> ids;
  for (const Json& token : *tokens) {
    if (!token.is_number_integer()) return std::nullopt;
    ids.push_back(token.get<int>());
  }
  return ids;
}

// One phase, warm-up or load. Callbacks run inside the client's Run.
class LoadPhase {
 public:
  LoadPhase(const BenchServeOptions& options, const std::string& model,
            const ServeWorkload& workload, bool warmup, ServeClient* client)
      : options_(options), model_(model), workload_(workload), warmup_(warmup), client_(client) {
    const int requests = warmup ? options.load.warmup : options.most_requests();
    conversations_ = requests == 0 ? 0 : (requests + workload.turns() - 1) / workload.turns();
    bounded_ = warmup || requests > 0;
  }

  // Runs to the end. Returns false where `progress` ended it.
  bool Run(const ServeProgress& progress);

  double duration() const { return duration_; }
  std::vector<ServeRecord> TakeRecords() { return std::move(records_); }

 private:
  // A conversation under way, of which one request is.
  struct Talk {
    explicit Talk(bool chat) : words(chat) {}

    int number = 0;
    int turn = 0;
    int retries = 0;
    ServeTurn said;
    ServeConversation words;
    ServeClock::time_point sent;  // first
  };
  using TalkPointer = std::shared_ptr<Talk>;

  bool MayStart() const;
  void StartNext();
  void ScheduleArrival();
  void Arrive();
  void SendTurn(const TalkPointer& talk);
  void Send(const TalkPointer& talk);
  bool RetriesLater(const TalkPointer& talk, const ServedReply& reply);
  void Finish(const TalkPointer& talk, const ServeReplyReader& reader, const ServedReply& reply);
  double DoneShare() const;

  const BenchServeOptions& options_;
  const std::string& model_;
  const ServeWorkload& workload_;
  bool warmup_;
  ServeClient* client_;
  int conversations_ = 0;
  bool bounded_ = false;  // by conversations_
  std::optional<ArrivalDraws> arrivals_;
  ServeClock::time_point origin_;
  ServeClock::time_point next_arrival_;
  int started_ = 0;    // conversations
  int waiting_ = 0;    // arrived, but every client is busy
  int under_way_ = 0;  // conversations
  int failed_ = 0;
  bool stopped_ = false;
  double duration_ = 0;
  std::vector<ServeRecord> records_;
};

bool LoadPhase::Run(const ServeProgress& progress) {
  origin_ = ServeClock::now();
  const int clients = options_.most_clients();
  if (options_.load.rate > 0 && !warmup_) {
    arrivals_.emplace(options_.load.rate, options_.load.burstiness,
                      static_cast<std::uint64_t>(options_.workload.seed));
    next_arrival_ = origin_;
    ScheduleArrival();
  } else {
    for (int i = 0; i < std::max(clients, 1); ++i) StartNext();
  }
  bool goes_on = true;
  client_->Run([&] {
    if (!goes_on) return;
    goes_on = progress(DoneShare(), static_cast<int>(records_.size()), under_way_, failed_);
    if (goes_on) return;
    stopped_ = true;
    client_->Stop();
  });
  return goes_on;
}

double LoadPhase::DoneShare() const {
  const double ended = static_cast<double>(records_.size());
  const double of_requests = bounded_ ? ended / std::max(conversations_ * workload_.turns(), 1) : 0;
  const int seconds = warmup_ ? 0 : options_.load.duration_seconds;
  return std::max(of_requests, seconds > 0 ? SecondsSince(origin_) / seconds : 0);
}

bool LoadPhase::MayStart() const {
  if (stopped_ || (bounded_ && started_ + waiting_ >= conversations_)) return false;
  const int seconds = warmup_ ? 0 : options_.load.duration_seconds;
  return seconds == 0 || SecondsSince(origin_) < seconds;
}

void LoadPhase::ScheduleArrival() {
  if (!MayStart()) return;
  client_->At(next_arrival_, [this] { Arrive(); });
}

void LoadPhase::Arrive() {
  if (!MayStart()) return;
  const int most = options_.most_clients();
  if (most > 0 && under_way_ >= most) {
    ++waiting_;
  } else {
    StartNext();
  }
  next_arrival_ += ToDuration(arrivals_->NextGap());
  ScheduleArrival();
}

void LoadPhase::StartNext() {
  if (waiting_ > 0 && !stopped_) {
    --waiting_;
  } else if (!MayStart()) {
    return;
  }
  const auto talk = std::make_shared<Talk>(options_.chat());
  talk->number = started_++;
  ++under_way_;
  SendTurn(talk);
}

void LoadPhase::SendTurn(const TalkPointer& talk) {
  talk->said = workload_.Turn(warmup_, talk->number, talk->turn);
  talk->words.Say(talk->said);
  talk->retries = 0;
  Send(talk);
}

void LoadPhase::Send(const TalkPointer& talk) {
  HttpCall call;
  call.path = options_.chat() ? "/v1/chat/completions" : "/v1/completions";
  call.body = talk->words.RequestBody(options_, model_);
  if (talk->retries == 0) talk->sent = ServeClock::now();
  const auto reader = std::make_shared<ServeReplyReader>(talk->sent);
  call.timeout = std::chrono::seconds(options_.target.timeout_seconds);
  call.drop_after_events = talk->said.leave_after;
  call.on_event = [reader](const std::string& data, ServeClock::time_point time) {
    reader->Read(data, time);
  };
  client_->Send(std::move(call), [this, talk, reader](const ServedReply& reply) {
    if (!RetriesLater(talk, reply)) Finish(talk, *reader, reply);
  });
}

bool LoadPhase::RetriesLater(const TalkPointer& talk, const ServedReply& reply) {
  const bool refused_for_now =
      reply.end == HttpEnd::kComplete && (reply.status == 429 || reply.status == 503);
  if (!refused_for_now || talk->retries >= options_.target.retries) return false;
  ++talk->retries;
  const double wait = reply.retry_after_seconds < 0
                          ? kRetrySeconds
                          : std::min(reply.retry_after_seconds, kMostRetrySeconds);
  client_->At(ServeClock::now() + ToDuration(wait), [this, talk] { Send(talk); });
  return true;
}

void LoadPhase::Finish(const TalkPointer& talk, const ServeReplyReader& reader,
                       const ServedReply& reply) {
  ServeRecord record;
  reader.Finish(reply, origin_, talk->said.prompt_tokens, &record);
  record.retries = talk->retries;
  record.disconnected = reply.end == HttpEnd::kDropped;
  if (record.disconnected) record.failure.clear();
  duration_ = std::max(duration_, record.end);
  const bool failed = !record.failure.empty();
  failed_ += failed ? 1 : 0;
  const bool goes_on = record.completed() && talk->turn + 1 < workload_.turns();
  records_.push_back(std::move(record));
  if (goes_on) {
    talk->words.Hear(reader.text());
    ++talk->turn;
    SendTurn(talk);
    return;
  }
  --under_way_;
  if (arrivals_ ? waiting_ > 0 : !failed) return StartNext();
  if (!arrivals_) client_->At(ServeClock::now() + kPauseAfterFailure, [this] { StartNext(); });
}

}  // namespace

Result<ServeLoadResult> RunServeLoad(const BenchServeOptions& options,
                                     const ServeProgress& progress) {
  SKV_ASSIGN_OR_RETURN(const ServeAddress address, ParseServeUrl(options.target.url));
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<ServeClient> client,
                       ServeClient::Open(address, options.target.api_key));
  ServeLoadResult result;
  const Tick tick = [&] {
    result.interrupted = result.interrupted || !progress(0, 0, 0, 0);
    if (result.interrupted) client->Stop();
  };
  result.model = options.target.model.empty() ? AskModel(client.get(), tick) : options.target.model;
  ServeLexicon lexicon = MakeServeLexicon(
      [&](const std::string& text) { return AskTokens(client.get(), result.model, text, tick); });
  if (result.interrupted) return result;
  result.sent_ids = options.sends_ids();
  result.told_ids = lexicon.told_ids;
  result.exact_prompts = result.sent_ids || lexicon.exact_words;
  const ServeWorkload workload(options, std::move(lexicon));
  if (options.load.warmup > 0) {
    LoadPhase warmup(options, result.model, workload, /*warmup=*/true, client.get());
    result.interrupted = !warmup.Run(progress);
    const std::vector<ServeRecord> records = warmup.TakeRecords();
    result.warmups_completed = static_cast<int>(std::count_if(
        records.begin(), records.end(), [](const ServeRecord& r) { return r.completed(); }));
    if (result.interrupted) return result;
  }
  LoadPhase load(options, result.model, workload, /*warmup=*/false, client.get());
  result.interrupted = !load.Run(progress);
  result.duration = load.duration();
  result.records = load.TakeRecords();
  return result;
}

}  // namespace swiftkv
