// SPDX-License-Identifier: Apache-2.0
// Implements calls as coroutines over Beast's parser; the only file of the bench that knows it.
#include "tools/bench_serve_client.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "tools/bench_serve_events.h"

namespace swiftkv {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// Awaits an operation and returns its error instead of throwing it.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kMostBody = std::size_t{64} << 10;
constexpr std::chrono::milliseconds kTick{100};

struct Task {
  HttpCall call;
  std::function<void(ServedReply)> done;
  ServedReply reply;
  EventStreamReader reader;
  int events = 0;
  bool dropped = false;                 // by us
  beast::tcp_stream* stream = nullptr;  // while it is used
};

HttpEnd EndOf(error_code error) {
  if (error == beast::error::timeout) return HttpEnd::kTimedOut;
  const bool is_http =
      error.category() == http::make_error_code(http::error::bad_method).category();
  if (is_http && error != http::error::end_of_stream && error != http::error::partial_message) {
    return HttpEnd::kMalformed;
  }
  return HttpEnd::kClosed;
}

double RetryAfter(const http::fields& fields) {
  const auto text = fields[http::field::retry_after];
  int seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return parsed.ec == std::errc() && seconds >= 0 ? seconds : -1;
}

// Hands what has come to whoever waits for it.
void Deliver(const std::string& bytes, Task* task) {
  ServedReply& reply = task->reply;
  if (task->events == 0 && reply.body.size() < kMostBody) {
    reply.body.append(bytes, 0, kMostBody - reply.body.size());
  }
  if (reply.status != 200 || !task->call.on_event) return;
  const ServeClock::time_point now = ServeClock::now();
  for (const std::string& data : task->reader.Take(bytes)) {
    if (task->dropped) return;
    task->call.on_event(data, now);
    task->dropped = ++task->events == task->call.drop_after_events;
  }
}

}  // namespace

struct ServeClient::State {
  asio::awaitable<void> Perform(std::shared_ptr<Task> task);
  asio::awaitable<error_code> Connect(beast::tcp_stream& stream);
  asio::awaitable<error_code> Exchange(Task& task, beast::tcp_stream& stream, bool& reusable);
  asio::awaitable<error_code> ReadReply(Task& task, beast::tcp_stream& stream, bool& reusable);
  std::unique_ptr<beast::tcp_stream> TakeIdle();

  asio::io_context io{1};
  std::vector<tcp::endpoint> endpoints;
  std::string authority;
  std::string base_path;
  std::string authorization;  // empty: none
  std::vector<std::unique_ptr<beast::tcp_stream>> idle;
  std::set<std::shared_ptr<Task>> tasks;
  std::set<std::shared_ptr<asio::steady_timer>> timers;
  bool stopped = false;
};

std::unique_ptr<beast::tcp_stream> ServeClient::State::TakeIdle() {
  if (idle.empty()) return nullptr;
  std::unique_ptr<beast::tcp_stream> stream = std::move(idle.back());
  idle.pop_back();
  return stream;
}

asio::awaitable<error_code> ServeClient::State::Connect(beast::tcp_stream& stream) {
  const auto [error, endpoint] = co_await stream.async_connect(endpoints, kAwait);
  if (!error) {
    error_code ignored;
    stream.socket().set_option(tcp::no_delay(true), ignored);
  }
  co_return error;
}

asio::awaitable<error_code> ServeClient::State::Exchange(Task& task, beast::tcp_stream& stream,
                                                         bool& reusable) {
  http::request<http::string_body> request(task.call.post ? http::verb::post : http::verb::get,
                                           base_path + task.call.path, 11);
  request.set(http::field::host, authority);
  request.set(http::field::user_agent, "swiftkv-bench");
  if (!authorization.empty()) request.set(http::field::authorization, authorization);
  if (task.call.post) request.set(http::field::content_type, "application/json");
  request.body() = task.call.body;
  request.prepare_payload();
  const auto [error, size] = co_await http::async_write(stream, request, kAwait);
  if (error) co_return error;
  task.dropped = task.call.drop_after_events == 0;
  if (task.dropped) co_return error_code();
  co_return co_await ReadReply(task, stream, reusable);
}

asio::awaitable<error_code> ServeClient::State::ReadReply(Task& task, beast::tcp_stream& stream,
                                                          bool& reusable) {
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  const auto [head_error, head_size] =
      co_await http::async_read_header(stream, buffer, parser, kAwait);
  if (head_error) co_return head_error;
  task.reply.status = parser.get().result_int();
  task.reply.retry_after_seconds = RetryAfter(parser.get());
  while (!parser.is_done() && !task.dropped) {
    const auto [error, size] = co_await http::async_read_some(stream, buffer, parser, kAwait);
    Deliver(std::exchange(parser.get().body(), {}), &task);
    if (error) co_return error;
    if (task.reader.overflowed()) co_return http::make_error_code(http::error::body_limit);
  }
  reusable = parser.is_done() && parser.keep_alive() && buffer.size() == 0;
  co_return error_code();
}

asio::awaitable<void> ServeClient::State::Perform(std::shared_ptr<Task> task) {
  ServedReply& reply = task->reply;
  const ServeClock::time_point deadline = ServeClock::now() + task->call.timeout;
  for (bool again = true; again && !stopped;) {
    std::unique_ptr<beast::tcp_stream> stream = TakeIdle();
    const bool reused = stream != nullptr;
    if (!reused) stream = std::make_unique<beast::tcp_stream>(io);
    task->stream = stream.get();
    stream->expires_at(deadline);
    error_code error;
    if (!reused) error = co_await Connect(*stream);
    const bool connected = !error;
    bool reusable = false;
    if (connected) error = co_await Exchange(*task, *stream, reusable);
    task->stream = nullptr;
    if (reusable && !task->dropped && !stopped) {
      stream->expires_never();
      idle.push_back(std::move(stream));
    }
    again = reused && error && reply.status == 0 && EndOf(error) == HttpEnd::kClosed;
    if (!error || again) continue;
    reply.end = connected || error == beast::error::timeout ? EndOf(error) : HttpEnd::kRefused;
    reply.detail = error.message();
  }
  if (task->dropped || stopped) reply.end = HttpEnd::kDropped;
}

ServeClient::ServeClient(std::unique_ptr<State> state) : state_(std::move(state)) {}

ServeClient::~ServeClient() {
  Stop();
  Run();
}

Result<std::unique_ptr<ServeClient>> ServeClient::Open(const ServeAddress& address,
                                                       const std::string& api_key) {
  auto state = std::make_unique<State>();
  error_code error;
  tcp::resolver resolver(state->io);
  for (const auto& entry : resolver.resolve(address.host, address.port, error)) {
    state->endpoints.push_back(entry.endpoint());
  }
  if (error || state->endpoints.empty()) {
    return Status::NotFound(
        fmt::format("no address of the host was found ({}): {}", error.message(), address.host));
  }
  state->authority = address.Authority();
  state->base_path = address.base_path;
  if (!api_key.empty()) state->authorization = "Bearer " + api_key;
  return std::unique_ptr<ServeClient>(new ServeClient(std::move(state)));
}

void ServeClient::Send(HttpCall call, std::function<void(ServedReply)> done) {
  auto task = std::make_shared<Task>();
  task->call = std::move(call);
  task->done = std::move(done);
  state_->tasks.insert(task);
  asio::co_spawn(
      state_->io, [this, task] { return state_->Perform(task); },
      [this, task](const std::exception_ptr& failure) {
        if (failure) task->reply.end = HttpEnd::kMalformed;
        state_->tasks.erase(task);
        task->done(std::move(task->reply));
      });
}

void ServeClient::At(ServeClock::time_point time, std::function<void()> then) {
  if (state_->stopped) return;
  auto timer = std::make_shared<asio::steady_timer>(state_->io, time);
  state_->timers.insert(timer);
  timer->async_wait([this, timer, then = std::move(then)](error_code error) {
    state_->timers.erase(timer);
    if (!error && !state_->stopped) then();
  });
}

void ServeClient::Run(const std::function<void()>& tick) {
  while (!state_->tasks.empty() || !state_->timers.empty()) {
    state_->io.restart();
    state_->io.run_for(kTick);
    if (tick) tick();
  }
}

ServedReply ServeClient::Ask(HttpCall call, const std::function<void()>& tick) {
  ServedReply reply;
  Send(std::move(call), [&reply](ServedReply told) { reply = std::move(told); });
  Run(tick);
  return reply;
}

void ServeClient::Stop() {
  state_->stopped = true;
  state_->idle.clear();
  for (const auto& timer : state_->timers) timer->cancel();
  for (const auto& task : state_->tasks) {
    if (task->stream != nullptr) task->stream->close();
  }
}

}  // namespace swiftkv
