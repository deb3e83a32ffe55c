// SPDX-License-Identifier: Apache-2.0
// Tests what callers may ask of the cache while requests run: dropping prefixes and pinning them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "engine/tiny_engine.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kLong = std::chrono::hours(1);

class CacheOperationsTest : public ::testing::Test {
 protected:
  void Start(const TinySessionOptions& options) { tiny_ = MakeTinyEngine(options); }

  DroppedPrefixes Drop(const std::optional<PrefixOwner>& owner = {}) {
    std::promise<DroppedPrefixes> done;
    const Status asked = tiny_.engine->DropPrefixes(
        owner, [&done](const DroppedPrefixes& dropped) { done.set_value(dropped); });
    EXPECT_TRUE(asked.ok()) << asked.message();
    return asked.ok() ? done.get_future().get() : DroppedPrefixes{};
  }

  Status Pin(const PrefixName& prefix, std::chrono::milliseconds keep) {
    std::promise<Status> done;
    const Status asked = tiny_.engine->PinPrefix(
        prefix, keep, [&done](const Status& status) { done.set_value(status); });
    return asked.ok() ? done.get_future().get() : asked;
  }

  Status Unpin(const PrefixName& prefix) {
    std::promise<Status> done;
    const Status asked = tiny_.engine->UnpinPrefix(
        prefix, [&done](const Status& status) { done.set_value(status); });
    return asked.ok() ? done.get_future().get() : asked;
  }

  // Serves a prompt and returns how much of it was cached.
  std::int64_t Serve(const std::vector<TokenId>& prompt, const std::string& tenant = "") {
    EngineRequest request = GreedyRequest(prompt, 2);
    request.tenant_salt = tenant;
    TokenStream stream = tiny_.Submit(std::move(request));
    ReadAll(&stream);
    return stream.usage().cached_tokens;
  }

  TinyEngine tiny_;
};

TEST_F(CacheOperationsTest, DroppingForgetsWhatIsCachedAndSaysWhatWasFreed) {
  Start({});
  Serve(TinyPrompt(65));
  // A stream ends within a step, and figures are told after it.
  while (tiny_.engine->Snapshot().finished_requests == 0) std::this_thread::yield();
  const std::uint64_t cached = tiny_.engine->Snapshot().balance.cached_bytes;
  const DroppedPrefixes dropped = Drop();
  EXPECT_EQ(dropped.blocks, 4U);
  EXPECT_EQ(dropped.freed_bytes, cached);
  EXPECT_EQ(Drop().blocks, 0U) << "nothing is left";
  EXPECT_EQ(Serve(TinyPrompt(65)), 0);
  EXPECT_EQ(Serve(TinyPrompt(65)), 64);
  tiny_.ExpectDrained();
}

TEST_F(CacheOperationsTest, DroppingOneOwnersBlocksLeavesTheOthers) {
  Start({});
  for (const char* const tenant : {"a", "b", ""}) Serve(TinyPrompt(65), tenant);
  EXPECT_EQ(Drop(PrefixOwner{"a", ""}).blocks, 4U);
  EXPECT_EQ(Drop(PrefixOwner{"", "b"}).blocks, 0U);
  EXPECT_EQ(Serve(TinyPrompt(65), "a"), 0);
  EXPECT_EQ(Serve(TinyPrompt(65), "b"), 64);
  EXPECT_EQ(Serve(TinyPrompt(65), ""), 64);
  tiny_.ExpectDrained();
}

TEST_F(CacheOperationsTest, DroppingWhileRequestsRunChangesNoReply) {
  const TinySessionOptions options = {.context = 512, .chunk = 16};
  Start(options);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<TokenStream> streams;
  for (int i = 0; i < 8; ++i) {
    prompts.push_back(Join(TinyPrompt(100, i / 4), TinyPrompt(5 + i, i)));
    streams.push_back(tiny_.Submit(GreedyRequest(prompts.back(), 30)));
  }
  while (tiny_.engine->Snapshot().finished_requests < streams.size()) Drop();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    ExpectAsSolo(options, prompts[i], ReadAll(&streams[i]).front());
  }
  tiny_.ExpectDrained();
}

TEST_F(CacheOperationsTest, APinnedPrefixOutlivesPressureUntilItIsUnpinned) {
  Start({.cache_bytes = 256 << 10});
  PrefixName prefix;
  prefix.tokens = TinyPrompt(64);
  EXPECT_EQ(Pin(prefix, kLong).code(), StatusCode::kNotFound) << "nobody has computed it";
  Serve(TinyPrompt(65));
  ASSERT_TRUE(Pin(prefix, kLong).ok());
  const auto press = [&] {
    for (int seed = 2; seed < 40; ++seed) Serve(TinyPrompt(150, seed));
  };
  press();
  EXPECT_EQ(Serve(TinyPrompt(65)), 64);
  EXPECT_EQ(tiny_.engine->Snapshot().pinned.prefixes, 1U);
  EXPECT_EQ(tiny_.engine->Snapshot().pinned.blocks, 4U);
  ASSERT_TRUE(Unpin(prefix).ok());
  EXPECT_EQ(Unpin(prefix).code(), StatusCode::kNotFound);
  press();
  EXPECT_EQ(Serve(TinyPrompt(65)), 0);
  EXPECT_EQ(tiny_.engine->Snapshot().pinned.prefixes, 0U);
  tiny_.ExpectDrained();
}

TEST_F(CacheOperationsTest, APinHoldsForItsOwnerAndFormatAlone) {
  Start({});
  Serve(TinyPrompt(65), "a");
  PrefixName prefix;
  prefix.tokens = TinyPrompt(64);
  prefix.owner.tenant_salt = "a";
  PrefixName other = prefix;
  other.owner.tenant_salt = "b";
  EXPECT_EQ(Pin(other, kLong).code(), StatusCode::kNotFound);
  other = prefix;
  other.format = KvFormat{"f16", "f16"};
  EXPECT_EQ(Pin(other, kLong).code(), StatusCode::kNotFound);
  other.format = KvFormat{"no", "f16"};
  EXPECT_EQ(Pin(other, kLong).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Pin(prefix, std::chrono::milliseconds(0)).message(), HasSubstr("not: 0"));
  EXPECT_TRUE(Pin(prefix, std::chrono::milliseconds::max()).ok());
  tiny_.ExpectDrained();
}

TEST_F(CacheOperationsTest, WhatIsTakenIsCarriedOutAndAfterTheEndNothingIs) {
  Start({});
  EXPECT_TRUE(tiny_.engine->Drain(kPatience));
  EXPECT_EQ(Drop().blocks, 0U) << "a drained engine still answers";
  std::atomic<int> taken = 0;
  std::atomic<int> done = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      Status asked = Status::Ok();
      while (asked.code() != StatusCode::kCancelled) {
        asked = tiny_.engine->DropPrefixes({}, [&done](const DroppedPrefixes&) { ++done; });
        if (asked.ok()) ++taken;
      }
    });
  }
  while (done == 0) std::this_thread::yield();
  tiny_.engine->Shutdown();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(taken, done);
}

}  // namespace
}  // namespace swiftkv
