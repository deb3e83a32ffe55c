// SPDX-License-Identifier: Apache-2.0
// Implements the client over POSIX sockets.
#include "support/http_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace swiftkv {
namespace {

constexpr int kPatienceSeconds = 60;

// Returns the value of a header; names as our server writes them.
std::string HeaderOf(const std::string& headers, const std::string& name) {
  const std::string key = "\r\n" + name + ": ";
  const std::size_t begin = headers.find(key);
  if (begin == std::string::npos) return {};
  const std::size_t end = headers.find("\r\n", begin + key.size());
  return headers.substr(begin + key.size(), end - begin - key.size());
}

}  // namespace

HttpSocket::HttpSocket(int port, int receive_bytes)
    : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience = {.tv_sec = kPatienceSeconds, .tv_usec = 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (receive_bytes > 0) {
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  }
  if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Close();
  }
}

bool HttpSocket::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool HttpSocket::ReadMore() {
  char bytes[65536];
  const ssize_t size = ::recv(descriptor_, bytes, sizeof(bytes), 0);
  if (size <= 0) return false;
  received_.append(bytes, static_cast<std::size_t>(size));
  return true;
}

bool HttpSocket::ReadUntil(std::string_view text) {
  while (received_.find(text) == std::string::npos) {
    if (!ReadMore()) return false;
  }
  return true;
}

bool HttpSocket::ReadUntil(std::string_view text, int times) {
  std::size_t end = 0;
  for (int i = 0; i < times; ++i) {
    std::size_t found = std::string::npos;
    while ((found = received_.find(text, end)) == std::string::npos) {
      if (!ReadMore()) return false;
    }
    end = found + text.size();
  }
  return true;
}

RawReply HttpSocket::ReadReply() {
  RawReply reply;
  if (!ReadUntil("\r\n\r\n")) return reply;
  const std::size_t body = received_.find("\r\n\r\n") + 4;
  reply.headers = received_.substr(0, body);
  received_.erase(0, body);
  reply.status = std::atoi(reply.headers.c_str() + reply.headers.find(' '));
  if (HeaderOf(reply.headers, "Transfer-Encoding") != "chunked") {
    const auto size =
        static_cast<std::size_t>(std::atoll(HeaderOf(reply.headers, "Content-Length").c_str()));
    while (received_.size() < size && ReadMore()) {
    }
    reply.complete = received_.size() >= size;
    reply.body = received_.substr(0, size);
    received_.erase(0, size);
    return reply;
  }
  for (;;) {
    if (!ReadUntil("\r\n")) return reply;
    const std::size_t line = received_.find("\r\n") + 2;
    const std::size_t size = std::strtoull(received_.c_str(), nullptr, 16);
    while (received_.size() < line + size + 2) {
      if (!ReadMore()) return reply;
    }
    reply.body += received_.substr(line, size);
    received_.erase(0, line + size + 2);
    if (size == 0) break;
  }
  reply.complete = true;
  return reply;
}

bool HttpSocket::ClosesSilently() {
  char byte = 0;
  return received_.empty() && ::recv(descriptor_, &byte, 1, 0) == 0;
}

void HttpSocket::Close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void HttpSocket::Reset() {
  const linger abort = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
  Close();
}

std::string HttpBytes(const std::string& method, const std::string& path, const std::string& body) {
  std::string bytes = method + " " + path + " HTTP/1.1\r\nHost: test\r\n";
  if (!body.empty()) bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return bytes + "\r\n" + body;
}

RawReply AskOnce(int port, const std::string& bytes) {
  HttpSocket socket(port);
  socket.Write(bytes);
  return socket.ReadReply();
}

}  // namespace swiftkv
