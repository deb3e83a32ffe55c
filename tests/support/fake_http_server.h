// SPDX-License-Identifier: Apache-2.0
// Answers HTTP requests on loopback with whatever bytes a test wants, well-formed or not.
//
// Owner: one test. Each connection has a thread, on which the test's function runs; it must be
// safe to call from several at once. All of them have ended when the object is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace swiftkv {

struct FakeRequest {
  int number = 0;    // from 0, over all connections
  std::string head;  // request line and headers
  std::string body;

  bool Asks(const std::string& path) const { return head.find(' ' + path + ' ') != head.npos; }
};

struct FakeReply {
  enum class End {
    kKeep,   // waits for the next request on the connection
    kClose,  // closes it
    kReset,  // so that the client sees a reset
    kHold,   // says nothing more until the client closes
  };

  std::vector<std::string> pieces = {};  // written one by one
  End end = End::kKeep;
};

class FakeHttpServer {
 public:
  using Answer = std::function<FakeReply(const FakeRequest& request)>;

  explicit FakeHttpServer(Answer answer);
  ~FakeHttpServer();
  FakeHttpServer(const FakeHttpServer&) = delete;
  FakeHttpServer& operator=(const FakeHttpServer&) = delete;

  int port() const;
  std::string url() const;
  // Requests and connections so far.
  int requests() const;
  int connections() const;
  // Returns once so many requests have come.
  void WaitForRequests(int count) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns a whole reply with a body. `headers` end with a line break each.
std::string FakeHttpReply(int status, const std::string& body, const std::string& headers = "");

// Returns the head of a chunked stream of events, one chunk with an event, and the last chunk.
std::string FakeStreamHead();
std::string FakeEvent(const std::string& data);
std::string FakeStreamEnd();

// Returns a whole stream of a completion of these texts, with its usage where it is told.
std::string FakeCompletion(const std::vector<std::string>& texts, bool tells_usage = true);

}  // namespace swiftkv
