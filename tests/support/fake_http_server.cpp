// SPDX-License-Identifier: Apache-2.0
// Implements the server over POSIX sockets.
#include "support/fake_http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace swiftkv {

struct FakeHttpServer::State {
  void Accept();
  void Serve(int descriptor);
  bool ReadRequest(int descriptor, std::string* received, FakeRequest* request);
  void Close(int descriptor, bool reset);

  Answer answer;
  int listener = -1;
  int port = 0;
  std::atomic<int> connections = 0;
  std::condition_variable came;
  std::mutex mutex;  // guards the next four
  int requests = 0;
  bool ends = false;
  std::set<int> open;
  std::vector<std::thread> threads;
  std::thread acceptor;
};

void FakeHttpServer::State::Accept() {
  for (;;) {
    const int descriptor = ::accept(listener, nullptr, nullptr);
    if (descriptor < 0) return;
    ++connections;
    const std::lock_guard lock(mutex);
    if (ends) {
      ::close(descriptor);
      return;
    }
    open.insert(descriptor);
    threads.emplace_back([this, descriptor] { Serve(descriptor); });
  }
}

bool FakeHttpServer::State::ReadRequest(int descriptor, std::string* received,
                                        FakeRequest* request) {
  std::size_t wanted = std::string::npos;
  for (;;) {
    const std::size_t end = received->find("\r\n\r\n");
    if (end != std::string::npos && wanted == std::string::npos) {
      request->head = received->substr(0, end + 4);
      const std::size_t length = request->head.find("Content-Length: ");
      wanted = end + 4;
      if (length != std::string::npos) {
        wanted += static_cast<std::size_t>(std::atoll(request->head.c_str() + length + 16));
      }
    }
    if (received->size() >= wanted && wanted != std::string::npos) break;
    char bytes[4096];
    const ssize_t size = ::recv(descriptor, bytes, sizeof(bytes), 0);
    if (size <= 0) return false;
    received->append(bytes, static_cast<std::size_t>(size));
  }
  request->body = received->substr(request->head.size(), wanted - request->head.size());
  received->erase(0, wanted);
  return true;
}

void FakeHttpServer::State::Serve(int descriptor) {
  // Pieces of a reply would otherwise wait for the client's acknowledgements.
  const int at_once = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  std::string received;
  bool reset = false;
  for (bool keeps = true; keeps;) {
    FakeRequest request;
    if (!ReadRequest(descriptor, &received, &request)) break;
    {
      const std::lock_guard lock(mutex);
      request.number = requests++;
    }
    came.notify_all();
    const FakeReply reply = answer(request);
    for (const std::string& piece : reply.pieces) {
      ::send(descriptor, piece.data(), piece.size(), MSG_NOSIGNAL);
    }
    keeps = reply.end == FakeReply::End::kKeep;
    reset = reply.end == FakeReply::End::kReset;
    char byte = 0;
    while (reply.end == FakeReply::End::kHold && ::recv(descriptor, &byte, 1, 0) > 0) {
    }
  }
  Close(descriptor, reset);
}

void FakeHttpServer::State::Close(int descriptor, bool reset) {
  const linger abort = {.l_onoff = 1, .l_linger = 0};
  if (reset) ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
  const std::lock_guard lock(mutex);
  open.erase(descriptor);
  ::close(descriptor);
}

FakeHttpServer::FakeHttpServer(Answer answer) : state_(std::make_unique<State>()) {
  state_->answer = std::move(answer);
  state_->listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(state_->listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  ::listen(state_->listener, 64);
  ::getsockname(state_->listener, reinterpret_cast<sockaddr*>(&address), &size);
  state_->port = ntohs(address.sin_port);
  state_->acceptor = std::thread([state = state_.get()] { state->Accept(); });
}

FakeHttpServer::~FakeHttpServer() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
    for (const int descriptor : state_->open) ::shutdown(descriptor, SHUT_RDWR);
    threads = std::move(state_->threads);
  }
  ::shutdown(state_->listener, SHUT_RDWR);
  state_->acceptor.join();
  for (std::thread& thread : threads) thread.join();
  ::close(state_->listener);
}

int FakeHttpServer::port() const { return state_->port; }
std::string FakeHttpServer::url() const {
  return "http://127.0.0.1:" + std::to_string(state_->port);
}
int FakeHttpServer::requests() const {
  const std::lock_guard lock(state_->mutex);
  return state_->requests;
}
void FakeHttpServer::WaitForRequests(int count) const {
  std::unique_lock lock(state_->mutex);
  state_->came.wait(lock, [&] { return state_->requests >= count; });
}
int FakeHttpServer::connections() const { return state_->connections; }

std::string FakeHttpReply(int status, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + std::to_string(status) + " Said\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string FakeStreamHead() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
}

std::string FakeEvent(const std::string& data) {
  const std::string event = "data: " + data + "\n\n";
  char size[16];
  std::snprintf(size, sizeof(size), "%zx\r\n", event.size());
  return size + event + "\r\n";
}

std::string FakeStreamEnd() { return "0\r\n\r\n"; }

std::string FakeCompletion(const std::vector<std::string>& texts, bool tells_usage) {
  std::string stream = FakeStreamHead();
  for (const std::string& text : texts) {
    stream += FakeEvent(R"({"choices": [{"index": 0, "text": ")" + text +
                        R"(", "finish_reason": null}]})");
  }
  stream += FakeEvent(R"({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})");
  if (tells_usage) {
    stream += FakeEvent(R"({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": )" +
                        std::to_string(texts.size()) +
                        R"(, "prompt_tokens_details": {"cached_tokens": 3}}})");
  }
  return stream + FakeEvent("[DONE]") + FakeStreamEnd();
}

}  // namespace swiftkv
