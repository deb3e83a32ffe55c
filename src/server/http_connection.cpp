// SPDX-License-Identifier: Apache-2.0
// Implements a connection as coroutines over Beast's parser and serializer.
//
// Deadlines are one timer that cancels the socket's operations: a coroutine then sees an aborted
// operation and timed_out_. A client that closes its side counts as gone, as with most servers.
#include "server/http_connection.h"

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <utility>

namespace swiftkv {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Awaits an operation and returns its error instead of throwing it.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// Read ahead of a reply, for clients that pipeline; further bytes wait in the socket.
constexpr std::size_t kReadAheadBytes = std::size_t{64} << 10;
// Told to a client that is refused, so that it reads why before the connection goes.
constexpr int kLingerSeconds = 2;
constexpr std::size_t kLingerBytes = std::size_t{1} << 20;

// Lets the engine's thread wake a connection that may have gone.
class Waker : public std::enable_shared_from_this<Waker> {
 public:
  Waker(asio::any_io_executor executor, std::function<void()> wake)
      : executor_(std::move(executor)), wake_(std::move(wake)) {}

  // Any thread. Rings that come before the last was heard are one.
  void Ring() {
    if (rung_.exchange(true)) return;
    asio::post(executor_, [self = shared_from_this()] {
      self->rung_ = false;
      self->wake_();
    });
  }

 private:
  asio::any_io_executor executor_;
  std::function<void()> wake_;
  std::atomic<bool> rung_ = false;
};

std::string WithoutQuery(const std::string& target) {
  const std::size_t end = target.find('?');
  return end == std::string::npos ? target : target.substr(0, end);
}

HttpRequest ToRequest(http::request<http::string_body> message, bool from_loopback) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.path = WithoutQuery(std::string(message.target()));
  request.authorization = std::string(message[http::field::authorization]);
  request.body = std::move(message.body());
  request.from_loopback = from_loopback;
  return request;
}

// What to answer a request that cannot be read; status 0 where nobody listens any more.
ApiError ErrorOfRead(error_code error, bool timed_out) {
  if (timed_out) {
    return {.http_status = 408, .message = "the request did not arrive in time"};
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return {.http_status = 431, .message = "the request's headers are too large"};
  }
  if (error == http::error::body_limit) {
    return {.http_status = 413, .message = "the request's body is too large"};
  }
  const bool malformed =
      error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message;
  if (malformed) return {.http_status = 400, .message = "the request is no well-formed HTTP"};
  return {.http_status = 0, .message = {}};
}

bool IsLoopback(const asio::ip::tcp::socket& socket) {
  error_code error;
  const asio::ip::tcp::endpoint peer = socket.remote_endpoint(error);
  return !error && peer.address().is_loopback();
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, ConnectionRoom* room)
    : socket_(std::move(socket)),
      room_(room),
      deadline_(socket_.get_executor()),
      bell_(socket_.get_executor()) {
  room_->open.insert(this);
  room_->api->counters().OpenedConnection();
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

HttpConnection::~HttpConnection() {
  room_->open.erase(this);
  room_->api->counters().ClosedConnection();
}

asio::awaitable<void> HttpConnection::Run() {
  const auto self = shared_from_this();  // handlers and rings may come until the end
  while (co_await ServeOne()) {
  }
  DisarmDeadline();
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void HttpConnection::Drain() {
  if (!idle_) return;
  error_code ignored;
  socket_.cancel(ignored);
}

asio::awaitable<bool> HttpConnection::WaitForRequest() {
  if (buffer_.size() > 0) co_return true;  // pipelined
  if (room_->draining) co_return false;
  idle_ = true;
  ArmDeadline(room_->options.idle_seconds);
  const auto [error] = co_await socket_.async_wait(asio::ip::tcp::socket::wait_read, kAwait);
  idle_ = false;
  co_return !error;
}

asio::awaitable<bool> HttpConnection::ServeOne() {
  if (!co_await WaitForRequest()) co_return false;
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(room_->options.header_bytes));
  parser.body_limit(static_cast<std::uint64_t>(room_->options.body_bytes));
  ArmDeadline(room_->options.header_seconds);
  auto [head_error, head_size] = co_await http::async_read_header(socket_, buffer_, parser, kAwait);
  if (head_error) co_return co_await Refuse(head_error);
  if (parser.get()[http::field::expect] == "100-continue") {
    http::response<http::empty_body> go_on(http::status::continue_, 11);
    const auto [error, size] = co_await http::async_write(socket_, go_on, kAwait);
    if (error) co_return false;
  }
  ArmDeadline(room_->options.body_seconds);
  if (!parser.is_done()) {
    auto [error, size] = co_await http::async_read(socket_, buffer_, parser, kAwait);
    if (error) co_return co_await Refuse(error);
  }
  DisarmDeadline();
  const unsigned version = parser.get().version();
  const bool keep_alive = parser.keep_alive();
  co_return co_await Answer(ToRequest(parser.release(), IsLoopback(socket_)), version, keep_alive);
}

asio::awaitable<bool> HttpConnection::Answer(HttpRequest request, unsigned version,
                                             bool keep_alive) {
  const auto waker = std::make_shared<Waker>(socket_.get_executor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Wake();
  });
  ApiOutcome outcome = room_->api->Handle(request, [waker] { waker->Ring(); });
  if (outcome.generation == nullptr) {
    co_return co_await Send(std::move(outcome.reply), version, keep_alive);
  }
  co_return co_await SendGeneration(std::move(outcome.generation), version, keep_alive);
}

asio::awaitable<bool> HttpConnection::Refuse(ErrorCode error) {
  const ApiError told = ErrorOfRead(error, timed_out_);
  if (told.http_status == 0) co_return false;
  room_->api->counters().RefusedRequest(told.http_status);
  co_await Send(ErrorReply(told), /*version=*/11, /*keep_alive=*/false);
  co_await Linger();
  co_return false;
}

asio::awaitable<void> HttpConnection::Linger() {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  ArmDeadline(kLingerSeconds);
  for (std::size_t dropped = 0; dropped < kLingerBytes;) {
    buffer_.clear();
    const auto [error, size] =
        co_await socket_.async_read_some(buffer_.prepare(kReadAheadBytes), kAwait);
    if (error) co_return;
    dropped += size;
  }
}

asio::awaitable<bool> HttpConnection::Send(HttpReply reply, unsigned version, bool keep_alive) {
  http::response<http::string_body> message(static_cast<http::status>(reply.status), version);
  message.set(http::field::server, "swiftkv/" SWIFTKV_VERSION);
  message.set(http::field::content_type, reply.content_type);
  for (const auto& [name, value] : reply.headers) message.set(name, value);
  message.keep_alive(keep_alive && !room_->draining);
  message.body() = std::move(reply.body);
  message.prepare_payload();
  ArmDeadline(room_->options.write_seconds);
  const auto [error, size] = co_await http::async_write(socket_, message, kAwait);
  DisarmDeadline();
  co_return !error && message.keep_alive();
}

asio::awaitable<bool> HttpConnection::SendStreamHead(unsigned version, bool keep_alive) {
  http::response<http::empty_body> head(http::status::ok, version);
  head.set(http::field::server, "swiftkv/" SWIFTKV_VERSION);
  head.set(http::field::content_type, "text/event-stream; charset=utf-8");
  head.set(http::field::cache_control, "no-cache");
  head.set("X-Accel-Buffering", "no");
  head.chunked(version >= 11);
  head.keep_alive(keep_alive);
  http::response_serializer<http::empty_body> serializer(head);
  ArmDeadline(room_->options.write_seconds);
  const auto [error, size] = co_await http::async_write_header(socket_, serializer, kAwait);
  DisarmDeadline();
  co_return !error;
}

asio::awaitable<bool> HttpConnection::SendEvents(const std::string& events, bool chunked) {
  ArmDeadline(room_->options.write_seconds);
  error_code error;
  std::size_t size = 0;
  if (chunked) {
    std::tie(error, size) =
        co_await asio::async_write(socket_, http::make_chunk(asio::buffer(events)), kAwait);
  } else {
    std::tie(error, size) = co_await asio::async_write(socket_, asio::buffer(events), kAwait);
  }
  DisarmDeadline();
  co_return !error;
}

asio::awaitable<bool> HttpConnection::SendGeneration(std::unique_ptr<Generation> generation,
                                                     unsigned version, bool keep_alive) {
  const bool chunked = version >= 11;
  bool started = false;
  WatchPeer();
  for (;;) {
    generation->Advance();
    if (peer_gone_) break;
    if (generation->streams()) {
      if (!started && !co_await SendStreamHead(version, keep_alive && chunked)) peer_gone_ = true;
      started = true;
      const std::string events = generation->TakeEvents();
      if (!peer_gone_ && !events.empty() && !co_await SendEvents(events, chunked)) {
        peer_gone_ = true;
      }
    }
    if (peer_gone_ || generation->ended()) break;
    co_await WaitForWake();
  }
  co_await StopWatching();
  if (peer_gone_) co_return false;
  if (!started) co_return co_await Send(generation->TakeReply(), version, keep_alive);
  if (!chunked) co_return false;
  ArmDeadline(room_->options.write_seconds);
  const auto [error, size] = co_await asio::async_write(socket_, http::make_chunk_last(), kAwait);
  DisarmDeadline();
  co_return !error && keep_alive && !room_->draining;
}

void HttpConnection::WatchPeer() {
  if (buffer_.size() >= kReadAheadBytes) return;
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(kReadAheadBytes - buffer_.size()),
                          [self = shared_from_this()](ErrorCode error, std::size_t size) {
                            self->watching_ = false;
                            self->buffer_.commit(size);
                            if (!error && !self->watch_ends_) self->WatchPeer();
                            if (error && error != asio::error::operation_aborted) {
                              self->peer_gone_ = true;
                            }
                            self->Wake();
                          });
}

// A deadline of a write cancels the read ahead as well; the write's own error then tells.
asio::awaitable<void> HttpConnection::StopWatching() {
  watch_ends_ = true;
  while (watching_) {
    error_code ignored;
    socket_.cancel(ignored);
    co_await WaitForWake();
  }
  watch_ends_ = false;
}

void HttpConnection::Wake() {
  woken_ = true;
  bell_.cancel();
}

asio::awaitable<void> HttpConnection::WaitForWake() {
  if (!woken_) {
    bell_.expires_at(std::chrono::steady_clock::time_point::max());
    co_await bell_.async_wait(kAwait);
  }
  woken_ = false;
}

void HttpConnection::ArmDeadline(int seconds) {
  timed_out_ = false;
  deadline_.expires_after(std::chrono::seconds(seconds));
  deadline_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (error || self == nullptr) return;
    // Armed anew after this one had expired, but before it was told.
    if (self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
    self->timed_out_ = true;
    ErrorCode ignored;
    self->socket_.cancel(ignored);
  });
}

void HttpConnection::DisarmDeadline() {
  timed_out_ = false;
  deadline_.expires_at(std::chrono::steady_clock::time_point::max());
}

}  // namespace swiftkv
