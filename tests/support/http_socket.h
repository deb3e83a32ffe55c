// SPDX-License-Identifier: Apache-2.0
// Speaks raw bytes to a server on loopback and reads replies, well-formed or not.
//
// Owner: one test. Every read gives up after a while, so that a server that hangs fails a test.
#pragma once

#include <string>
#include <string_view>

namespace swiftkv {

struct RawReply {
  int status = 0;       // 0: the server closed or stayed silent
  std::string headers;  // as they came, status line first
  std::string body;     // chunks put together
  bool complete = false;
};

class HttpSocket {
 public:
  // `receive_bytes`: what the kernel keeps of what is not read, about; 0: as the system has it.
  explicit HttpSocket(int port, int receive_bytes = 0);
  ~HttpSocket() { Close(); }
  HttpSocket(const HttpSocket&) = delete;
  HttpSocket& operator=(const HttpSocket&) = delete;

  bool connected() const { return descriptor_ >= 0; }

  // Returns false once the server no longer takes bytes.
  bool Write(std::string_view bytes);
  // Reads one reply by its Content-Length or chunks.
  RawReply ReadReply();
  // Reads until what has come since the last reply contains `text`.
  bool ReadUntil(std::string_view text);
  // The same until it contains `text` so many times.
  bool ReadUntil(std::string_view text, int times);
  // Whether the server closes within a while, without another byte.
  bool ClosesSilently();
  void Close();
  // Closes so that the server sees a reset.
  void Reset();

 private:
  bool ReadMore();

  int descriptor_ = -1;
  std::string received_;
};

// Returns the bytes of a request with a body, or without where it is empty.
std::string HttpBytes(const std::string& method, const std::string& path,
                      const std::string& body = "");

// One request on a connection of its own.
RawReply AskOnce(int port, const std::string& bytes);

}  // namespace swiftkv
