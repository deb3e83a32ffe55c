// SPDX-License-Identifier: Apache-2.0
// Lets other threads wake something on the server's thread that may have gone meanwhile.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <utility>

namespace swiftkv {

class Waker : public std::enable_shared_from_this<Waker> {
 public:
  // `wake` is called on the executor, once for all rings that come before it was.
  Waker(boost::asio::any_io_executor executor, std::function<void()> wake)
      : executor_(std::move(executor)), wake_(std::move(wake)) {}

  // Any thread.
  void Ring() {
    if (rung_.exchange(true)) return;
    boost::asio::post(executor_, [self = shared_from_this()] {
      self->rung_ = false;
      self->wake_();
    });
  }

 private:
  boost::asio::any_io_executor executor_;
  std::function<void()> wake_;
  std::atomic<bool> rung_ = false;
};

}  // namespace swiftkv
