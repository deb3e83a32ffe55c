// SPDX-License-Identifier: Apache-2.0
// Tests that long bodies are read aside, and what comes of requests that nobody waits for.
#include "server/request_lanes.h"

#include <condition_variable>
#include <future>
#include <mutex>

#include "server/served_tiny_model.h"

namespace swiftkv {
namespace {

HttpRequest Completion(std::string prompt) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.body = WriteJson({{"prompt", std::move(prompt)}, {"max_tokens", 100000}});
  return request;
}

// What becomes a long body: far more than the context of a tiny model.
HttpRequest LongCompletion() { return Completion(std::string(1 << 20, 'x')); }

// Counts rings, and waits for them.
class Bell {
 public:
  std::function<void()> ring() {
    return [this] {
      {
        const std::lock_guard lock(mutex_);
        ++rings_;
      }
      heard_.notify_all();
    };
  }
  void WaitUntil(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(heard_.wait_for(lock, kPatience, condition));
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  int rings_ = 0;
};

TEST(RequestLanesTest, AnswersShortBodiesWhileALongOneIsRead) {
  Bell bell;  // outlives the engine
  ServedTinyModel served;
  RequestLanes lanes(&served.api());
  std::promise<void> go;
  const std::shared_future<void> told = go.get_future().share();
  const auto longer = lanes.Send(LongCompletion(), [told] { told.wait(); });
  const auto shorter = lanes.Send(Completion("Hello"), bell.ring());
  bell.WaitUntil([&] { return shorter->done(); });
  EXPECT_NE(shorter->TakeOutcome().generation, nullptr);
  go.set_value();
  const auto next = lanes.Send(LongCompletion(), bell.ring());
  bell.WaitUntil([&] { return next->done(); });
  EXPECT_EQ(longer->TakeOutcome().reply.status, 400) << "beyond the context";
  EXPECT_EQ(next->TakeOutcome().reply.status, 400);
}

TEST(RequestLanesTest, BoundsWhatWaitsAndForgetsWhatWasAbandoned) {
  Bell bell;
  ServedTinyModel served;
  RequestLanes lanes(&served.api());
  std::promise<void> go;
  const std::shared_future<void> told = go.get_future().share();
  std::vector<std::shared_ptr<RequestErrand>> errands = {
      lanes.Send(LongCompletion(), [told] { told.wait(); })};
  while (errands.back() != nullptr && errands.size() < 1000) {
    errands.push_back(lanes.Send(LongCompletion(), bell.ring()));
  }
  ASSERT_EQ(errands.back(), nullptr);
  errands.pop_back();
  errands[2]->Abandon();
  errands[4]->Abandon();
  go.set_value();
  bell.WaitUntil([&] { return errands.back()->done(); });
  for (std::size_t i = 0; i < errands.size(); ++i) {
    EXPECT_EQ(errands[i]->done(), i != 2 && i != 4) << i;
  }
}

TEST(RequestLanesTest, CancelsWhatNobodyTakes) {
  Bell bell;
  ServedTinyModel served;
  {
    RequestLanes lanes(&served.api());
    const auto errand = lanes.Send(Completion("Hello"), bell.ring());
    bell.WaitUntil([&] { return errand->done(); });
    lanes.Send(Completion("Hello you"), bell.ring())->Abandon();
  }
  served.tiny().ExpectDrained();
}

}  // namespace
}  // namespace swiftkv
