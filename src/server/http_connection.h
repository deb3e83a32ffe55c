// SPDX-License-Identifier: Apache-2.0
// Serves one client's connection: reads requests within limits, sends replies and streams.
//
// Owner: the server's thread, on which every coroutine and handler runs; only Waker::Ring may be
// called from elsewhere.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <set>
#include <string>

#include "server/api.h"
#include "server/http_options.h"
#include "server/request_lanes.h"

namespace swiftkv {

class HttpConnection;

// What all connections of a server share.
struct ConnectionRoom {
  Api* api = nullptr;
  RequestLanes* lanes = nullptr;
  HttpOptions options;
  bool draining = false;
  std::size_t body_bytes = 0;  // of long bodies that have come and were not read yet
  std::set<HttpConnection*> open;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // The room outlives the connection.
  HttpConnection(boost::asio::ip::tcp::socket socket, ConnectionRoom* room);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Serves until the client leaves, a limit is hit or the server drains.
  boost::asio::awaitable<void> Run();

  // Ends the connection where it waits for a request; otherwise after the reply under way.
  void Drain();

 private:
  using ErrorCode = boost::system::error_code;

  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  boost::asio::awaitable<bool> ServeOne();
  boost::asio::awaitable<bool> WaitForRequest();
  boost::asio::awaitable<ErrorCode> ReadBody(Parser* parser);
  boost::asio::awaitable<bool> Answer(HttpRequest request, unsigned version, bool keep_alive);
  boost::asio::awaitable<bool> Refuse(HttpReply reply);
  boost::asio::awaitable<bool> RefuseUnread(ErrorCode error);
  boost::asio::awaitable<bool> Send(HttpReply reply, unsigned version, bool keep_alive);
  boost::asio::awaitable<bool> SendGeneration(std::unique_ptr<Generation> generation,
                                              unsigned version, bool keep_alive);
  boost::asio::awaitable<bool> SendStreamHead(unsigned version, bool keep_alive);
  // Gives the client time anew whenever it has taken some.
  boost::asio::awaitable<bool> SendBytes(std::string bytes);
  boost::asio::awaitable<void> Linger();

  // Reads ahead while a reply is made, so that a client that leaves is noticed.
  void WatchPeer();
  boost::asio::awaitable<void> StopWatching();
  void Wake();
  boost::asio::awaitable<void> WaitForWake();

  // Counts a body of so many bytes among those of all connections. Returns false where they are too
  // many.
  bool HoldBody(std::size_t bytes);
  void ReleaseBody();

  // Cancels what the socket does once the time is over.
  void ArmDeadline(int seconds);
  void DisarmDeadline();

  boost::asio::ip::tcp::socket socket_;
  ConnectionRoom* room_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer bell_;
  std::size_t held_bytes_ = 0;  // of room_->body_bytes
  bool timed_out_ = false;
  bool woken_ = false;
  bool idle_ = false;      // waits for a request of which nothing has come
  bool watching_ = false;  // a read ahead is under way
  bool watch_ends_ = false;
  bool peer_gone_ = false;
};

}  // namespace swiftkv
