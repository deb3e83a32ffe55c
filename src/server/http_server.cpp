// SPDX-License-Identifier: Apache-2.0
// Accepts connections and orders the end: signals, the drain's deadline, the engine.
#include "server/http_server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

#include "base/status_macros.h"
#include "server/http_connection.h"

namespace swiftkv {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// After replies were cut short, clients get this long to read the end of theirs.
constexpr std::chrono::seconds kLastWords{2};
// Descriptors may be short for a while; trying again at once would only burn a core.
constexpr std::chrono::milliseconds kAcceptPause{100};

Result<asio::ip::address> ParseHost(const std::string& host) {
  error_code error;
  const asio::ip::address address =
      asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (!error) return address;
  return Status::InvalidArgument(
      fmt::format("--host takes an IP address or localhost, got \"{}\"", host));
}

Status OpenAcceptor(const HttpOptions& options, tcp::acceptor* acceptor) {
  SKV_ASSIGN_OR_RETURN(const asio::ip::address address, ParseHost(options.host));
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(options.port));
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (!error) return Status::Ok();
  return Status::Internal(
      fmt::format("cannot listen on {} port {}: {}", options.host, options.port, error.message()));
}

}  // namespace

struct HttpServer::State {
  State() : acceptor(io), signals(io), timer(io), pause(io) {}

  asio::awaitable<void> Accept();
  void Admit(tcp::socket socket);
  void AwaitSignals();
  void Stop();
  void CutShort();
  void EndIfDrained();

  std::unique_ptr<RequestLanes> lanes;
  ConnectionRoom room;  // outlives the connections that the context still holds
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::steady_timer timer;  // of the drain
  asio::steady_timer pause;  // of accepting
};

asio::awaitable<void> HttpServer::State::Accept() {
  constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
  while (!room.draining) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (!error) {
      Admit(std::move(socket));
    } else if (error != asio::error::operation_aborted) {
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(kAwait);
    }
  }
}

void HttpServer::State::Admit(tcp::socket socket) {
  if (room.draining || room.open.size() >= static_cast<std::size_t>(room.options.max_connections)) {
    room.api->counters().RefusedConnection();
    return;  // the socket closes
  }
  auto connection = std::make_shared<HttpConnection>(std::move(socket), &room);
  asio::co_spawn(
      io, [connection] { return connection->Run(); },
      [this](const std::exception_ptr& failure) {
        if (failure) spdlog::warn("a connection ended by an exception");
        EndIfDrained();
      });
}

void HttpServer::State::AwaitSignals() {
  signals.async_wait([this](error_code error, int) {
    if (error) return;
    if (room.draining) {
      CutShort();
    } else {
      Stop();
    }
    AwaitSignals();
  });
}

void HttpServer::State::Stop() {
  if (room.draining) return;
  spdlog::info("draining {} connections", room.open.size());
  room.draining = true;
  room.api->StartDraining();
  error_code ignored;
  acceptor.close(ignored);
  pause.cancel();
  for (HttpConnection* connection : room.open) connection->Drain();
  timer.expires_after(std::chrono::seconds(room.options.drain_seconds));
  timer.async_wait([this](error_code error) {
    if (!error) CutShort();
  });
  EndIfDrained();
}

void HttpServer::State::CutShort() {
  spdlog::info("cutting {} replies short", room.open.size());
  room.api->StopEngine();
  timer.expires_after(kLastWords);
  timer.async_wait([this](error_code error) {
    if (!error) io.stop();
  });
}

void HttpServer::State::EndIfDrained() {
  // A connection's own frame may still hold it while this runs.
  asio::post(io, [this] {
    if (room.draining && room.open.empty()) io.stop();
  });
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpOptions& options, Api* api) {
  auto state = std::make_unique<State>();
  state->lanes = std::make_unique<RequestLanes>(api);
  state->room.api = api;
  state->room.lanes = state->lanes.get();
  state->room.options = options;
  SKV_RETURN_IF_ERROR(OpenAcceptor(options, &state->acceptor));
  for (const int signal : options.stop_signals) {
    error_code error;
    state->signals.add(signal, error);
    if (error) return Status::Internal("cannot handle a signal: " + error.message());
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

int HttpServer::port() const {
  error_code error;
  return state_->acceptor.local_endpoint(error).port();
}

void HttpServer::Run() {
  if (!state_->room.options.stop_signals.empty()) state_->AwaitSignals();
  asio::co_spawn(state_->io, state_->Accept(), asio::detached);
  state_->io.run();
  state_->lanes->Stop();
  state_->room.api->StopEngine();
}

void HttpServer::Stop() {
  asio::post(state_->io, [this] { state_->Stop(); });
}

}  // namespace swiftkv
