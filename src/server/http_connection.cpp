// SPDX-License-Identifier: Apache-2.0
// Implements a connection as coroutines over Beast's parser and serializer.
//
// Deadlines are one timer that cancels the socket's operations: a coroutine then sees an aborted
// operation and timed_out_. A client that closes its side counts as gone, as with most servers.
#include "server/http_connection.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <tuple>
#include <utility>

#include "server/waker.h"

namespace swiftkv {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Awaits an operation and returns its error instead of throwing it.
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// Read ahead of a reply, for clients that pipeline; further bytes wait in the socket.
constexpr std::size_t kReadAheadBytes = std::size_t{64} << 10;
// What the kernel keeps for a client that does not read; it would grow to megabytes by itself. A
// client that reads is written to again when a third of it is free: that much within the time for
// writing is the slowest that is served.
constexpr int kSendBufferBytes = 64 << 10;
// Told to a client that is refused, so that it reads why before the connection goes.
constexpr int kLingerSeconds = 2;
constexpr std::size_t kLingerBytes = std::size_t{1} << 20;
// Bodies up to this size are always taken; longer ones while those of all clients together are not
// more than so many of the largest.
constexpr std::size_t kShortBodyBytes = std::size_t{64} << 10;
constexpr std::size_t kMostLargestBodies = 8;

std::string WithoutQuery(const std::string& target) {
  const std::size_t end = target.find('?');
  return end == std::string::npos ? target : target.substr(0, end);
}

HttpRequest HeadOf(const http::request<http::string_body>& message, bool from_loopback) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.path = WithoutQuery(std::string(message.target()));
  request.authorization = std::string(message[http::field::authorization]);
  request.from_loopback = from_loopback;
  return request;
}

// One chunk of a chunked reply.
std::string Chunk(const std::string& bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

ApiError TooBusy() {
  return {.http_status = 429,
          .message = "too many requests wait to be read, try again later",
          .type = "rate_limit_error",
          .code = "rate_limit_exceeded"};
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
  if (error == boost::system::errc::not_enough_memory) return TooBusy();
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
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
}

HttpConnection::~HttpConnection() {
  ReleaseBody();
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
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(room_->options.header_bytes));
  parser.body_limit(static_cast<std::uint64_t>(room_->options.body_bytes));
  ArmDeadline(room_->options.header_seconds);
  auto [head_error, head_size] = co_await http::async_read_header(socket_, buffer_, parser, kAwait);
  if (head_error) co_return co_await RefuseUnread(head_error);
  HttpRequest request = HeadOf(parser.get(), IsLoopback(socket_));
  // A body that nobody will look at is read only where that is the quickest way past it.
  const bool is_short = parser.is_done() || (parser.content_length() && !parser.chunked() &&
                                             *parser.content_length() <= kShortBodyBytes);
  if (!is_short) {
    std::optional<HttpReply> refusal = room_->api->Screen(request);
    if (refusal) co_return co_await Refuse(std::move(*refusal));
  }
  if (parser.get()[http::field::expect] == "100-continue") {
    http::response<http::empty_body> go_on(http::status::continue_, 11);
    const auto [error, size] = co_await http::async_write(socket_, go_on, kAwait);
    if (error) co_return false;
  }
  const ErrorCode error = co_await ReadBody(&parser);
  if (error) co_return co_await RefuseUnread(error);
  request.body = std::move(parser.get().body());
  const unsigned version = parser.get().version();
  co_return co_await Answer(std::move(request), version, parser.keep_alive());
}

asio::awaitable<error_code> HttpConnection::ReadBody(Parser* parser) {
  ArmDeadline(room_->options.body_seconds);
  parser->eager(true);
  while (!parser->is_done()) {
    const auto [error, size] = co_await http::async_read_some(socket_, buffer_, *parser, kAwait);
    if (error) co_return error;
    if (!HoldBody(parser->get().body().size())) {
      co_return make_error_code(boost::system::errc::not_enough_memory);
    }
  }
  DisarmDeadline();
  co_return error_code();
}

bool HttpConnection::HoldBody(std::size_t bytes) {
  const std::size_t counted = bytes > kShortBodyBytes ? bytes : 0;
  const auto most = kMostLargestBodies * static_cast<std::size_t>(room_->options.body_bytes);
  if (room_->body_bytes - held_bytes_ + counted > most) return false;
  room_->body_bytes += counted - held_bytes_;
  held_bytes_ = counted;
  return true;
}

void HttpConnection::ReleaseBody() {
  room_->body_bytes -= held_bytes_;
  held_bytes_ = 0;
}

asio::awaitable<bool> HttpConnection::Answer(HttpRequest request, unsigned version,
                                             bool keep_alive) {
  const auto waker = std::make_shared<Waker>(socket_.get_executor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Wake();
  });
  const auto wake = [waker] { waker->Ring(); };
  ApiOutcome outcome;
  if (request.method == "POST") {
    const std::shared_ptr<RequestErrand> errand = room_->lanes->Send(std::move(request), wake);
    if (errand == nullptr) co_return co_await Refuse(ErrorReply(TooBusy()));
    WatchPeer();
    while (!errand->done() && !peer_gone_) co_await WaitForWake();
    if (peer_gone_) errand->Abandon();
    if (!peer_gone_) outcome = errand->TakeOutcome();
  } else {
    outcome = room_->api->Handle(request, wake);
  }
  ReleaseBody();
  if (outcome.generation != nullptr) {
    co_return co_await SendGeneration(std::move(outcome.generation), version, keep_alive);
  }
  co_await StopWatching();
  if (peer_gone_) co_return false;
  co_return co_await Send(std::move(outcome.reply), version, keep_alive);
}

asio::awaitable<bool> HttpConnection::RefuseUnread(ErrorCode error) {
  const ApiError told = ErrorOfRead(error, timed_out_);
  if (told.http_status == 0) co_return false;
  co_return co_await Refuse(ErrorReply(told));
}

asio::awaitable<bool> HttpConnection::Refuse(HttpReply reply) {
  room_->api->counters().RefusedRequest(reply.status);
  co_await Send(std::move(reply), /*version=*/11, /*keep_alive=*/false);
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
  http::response_serializer<http::string_body> serializer(message);
  ErrorCode error;
  while (!error && !serializer.is_done()) {
    ArmDeadline(room_->options.write_seconds);
    std::size_t size = 0;
    std::tie(error, size) = co_await http::async_write_some(socket_, serializer, kAwait);
  }
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

asio::awaitable<bool> HttpConnection::SendBytes(std::string bytes) {
  ErrorCode error;
  for (std::size_t sent = 0; !error && sent < bytes.size();) {
    ArmDeadline(room_->options.write_seconds);
    std::size_t size = 0;
    std::tie(error, size) = co_await socket_.async_write_some(asio::buffer(bytes) + sent, kAwait);
    sent += size;
  }
  DisarmDeadline();
  co_return !error;
}

asio::awaitable<bool> HttpConnection::SendGeneration(std::unique_ptr<Generation> generation,
                                                     unsigned version, bool keep_alive) {
  const bool chunked = version >= 11;
  bool started = false;
  for (;;) {
    generation->Advance();
    if (peer_gone_) break;
    if (generation->streams()) {
      if (!started && !co_await SendStreamHead(version, keep_alive && chunked)) peer_gone_ = true;
      started = true;
      std::string events = generation->TakeEvents();
      if (chunked && !events.empty()) events = Chunk(events);
      if (!peer_gone_ && !co_await SendBytes(std::move(events))) {
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
  std::string last = "0\r\n\r\n";
  co_return co_await SendBytes(std::move(last)) && keep_alive && !room_->draining;
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
