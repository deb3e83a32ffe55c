// SPDX-License-Identifier: Apache-2.0
// Implements lanes as thread pools with a count of what waits in front of them.
#include "server/request_lanes.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

namespace swiftkv {
namespace {

// Takes tens of milliseconds to read at most.
constexpr std::size_t kLongBodyBytes = std::size_t{256} << 10;

struct LaneSize {
  std::size_t threads = 0;
  int most = 0;  // requests that wait or run
};
constexpr LaneSize kShortLane{.threads = 2, .most = 1024};
constexpr LaneSize kLongLane{.threads = 1, .most = 16};

}  // namespace

void RequestErrand::Abandon() {
  Stage waits = Stage::kWaits;
  if (stage_.compare_exchange_strong(waits, Stage::kAbandoned)) request_ = {};
}

void RequestErrand::Run(Api* api, const std::function<void()>& wake) {
  Stage waits = Stage::kWaits;
  if (!stage_.compare_exchange_strong(waits, Stage::kRuns)) return;
  outcome_ = api->Handle(request_, wake);
  request_ = {};
  stage_ = Stage::kDone;
  wake();
}

struct RequestLanes::Lane {
  explicit Lane(const LaneSize& lane) : size(lane), pool(lane.threads) {}

  const LaneSize size;
  std::atomic<int> under_way = 0;  // that wait or run
  boost::asio::thread_pool pool;
};

RequestLanes::RequestLanes(Api* api)
    : api_(api),
      short_bodies_(std::make_unique<Lane>(kShortLane)),
      long_bodies_(std::make_unique<Lane>(kLongLane)) {}

RequestLanes::~RequestLanes() { Stop(); }

std::shared_ptr<RequestErrand> RequestLanes::Send(HttpRequest request,
                                                  const std::function<void()>& wake) {
  Lane* const lane =
      request.body.size() > kLongBodyBytes ? long_bodies_.get() : short_bodies_.get();
  if (lane->under_way >= lane->size.most) return nullptr;
  ++lane->under_way;
  auto errand = std::make_shared<RequestErrand>(std::move(request));
  boost::asio::post(lane->pool, [errand, lane, api = api_, wake] {
    errand->Run(api, wake);
    --lane->under_way;
  });
  return errand;
}

void RequestLanes::Stop() {
  for (Lane* lane : {short_bodies_.get(), long_bodies_.get()}) {
    lane->pool.stop();
    lane->pool.join();
  }
}

}  // namespace swiftkv
