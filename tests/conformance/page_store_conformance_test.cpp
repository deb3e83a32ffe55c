// SPDX-License-Identifier: Apache-2.0
// Holds every tier of the table to the contract of src/cache/page_store.h.
//
// A tier may forget at any time, so a test asks that what comes back is right, and that a block
// just put comes back while there is plenty of room.
#include "cache/page_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "cache/page_store_table.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kLimit = 1 << 20;

BlockKey RandomKey(std::mt19937* random) {
  BlockKey key;
  for (auto& byte : key.bytes) byte = static_cast<std::uint8_t>((*random)());
  return key;
}

std::vector<std::byte> RandomPayload(std::size_t bytes, std::mt19937* random) {
  std::vector<std::byte> payload(bytes);
  for (std::byte& byte : payload) byte = static_cast<std::byte>((*random)());
  return payload;
}

StoredBlockInfo Info(std::int32_t first_token) {
  StoredBlockInfo info{.format = "f16", .quality = Quality::kNear, .tokens = {}};
  for (std::int32_t i = 0; i < 16; ++i) info.tokens.push_back(first_token + i);
  return info;
}

class PageStoreConformanceTest : public testing::TestWithParam<const PageStoreRow*> {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/swiftkv_store_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    auto store = GetParam()->open({.limit_bytes = kLimit, .location = directory_});
    ASSERT_TRUE(store.ok()) << store.status().message();
    store_ = std::move(store).value();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  std::string directory_;
  std::unique_ptr<PageStore> store_;
  std::mt19937 random_{11};
};

std::vector<const PageStoreRow*> AllRows() {
  std::vector<const PageStoreRow*> rows;
  for (const PageStoreRow& row : AllPageStores()) rows.push_back(&row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Tiers, PageStoreConformanceTest, testing::ValuesIn(AllRows()),
                         [](const auto& instance) { return std::string(instance.param->name); });

TEST_P(PageStoreConformanceTest, ABlockComesBackByteForByteWithAllThatAReaderMustKnow) {
  const BlockKey key = RandomKey(&random_);
  const auto payload = RandomPayload(5000, &random_);
  ASSERT_TRUE(store_->Put(key, Info(40), payload).ok());
  EXPECT_TRUE(store_->Contains(key));
  const auto block = store_->Get(key);
  ASSERT_TRUE(block.ok()) << block.status().message();
  EXPECT_EQ(block->payload, payload);
  EXPECT_EQ(block->info.format, "f16");
  EXPECT_EQ(block->info.quality, Quality::kNear);
  EXPECT_EQ(block->info.tokens, Info(40).tokens);
  EXPECT_GE(store_->bytes_used(), payload.size());
}

TEST_P(PageStoreConformanceTest, AMissIsNotFoundAndRemovingNothingIsFine) {
  const BlockKey key = RandomKey(&random_);
  EXPECT_EQ(store_->Get(key).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(store_->Contains(key));
  store_->Remove(key);
  EXPECT_EQ(store_->bytes_used(), 0U);
}

TEST_P(PageStoreConformanceTest, PuttingAKeyAgainReplacesItsBlock) {
  const BlockKey key = RandomKey(&random_);
  ASSERT_TRUE(store_->Put(key, Info(0), RandomPayload(9000, &random_)).ok());
  const auto payload = RandomPayload(100, &random_);
  ASSERT_TRUE(store_->Put(key, Info(7), payload).ok());
  const auto block = store_->Get(key);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->payload, payload);
  EXPECT_EQ(block->info.tokens.front(), 7);
  EXPECT_LT(store_->bytes_used(), 9000U);
  store_->Remove(key);
  EXPECT_FALSE(store_->Contains(key));
  EXPECT_EQ(store_->Get(key).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->bytes_used(), 0U);
}

TEST_P(PageStoreConformanceTest, ABlockAboveTheLimitIsRefusedAndTheOthersStay) {
  const BlockKey kept = RandomKey(&random_);
  ASSERT_TRUE(store_->Put(kept, Info(1), RandomPayload(64, &random_)).ok());
  const Status status =
      store_->Put(RandomKey(&random_), Info(2), RandomPayload(kLimit + 1, &random_));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), testing::EndsWith(std::to_string(kLimit + 1)));
  EXPECT_TRUE(store_->Get(kept).ok());
}

TEST_P(PageStoreConformanceTest, TheLimitIsNeverPassedAndWhatComesBackIsNeverWrong) {
  std::map<BlockKey, std::vector<std::byte>> put;
  std::vector<BlockKey> keys;
  for (int i = 0; i < 40; ++i) keys.push_back(RandomKey(&random_));
  int hits = 0;
  for (int i = 0; i < 600; ++i) {
    const BlockKey& key = keys[random_() % keys.size()];
    if (random_() % 8 == 0) {
      store_->Remove(key);
      put.erase(key);
    } else if (random_() % 2 == 0) {
      const auto payload = RandomPayload(random_() % 100000, &random_);
      ASSERT_TRUE(store_->Put(key, Info(i), payload).ok());
      put[key] = payload;
    }
    ASSERT_LE(store_->bytes_used(), kLimit);
    const BlockKey& other = keys[random_() % keys.size()];
    const auto found = store_->Get(other);
    if (!found.ok()) {
      ASSERT_EQ(found.status().code(), StatusCode::kNotFound);
      continue;
    }
    ASSERT_TRUE(put.contains(other)) << "a removed block came back";
    ASSERT_EQ(found->payload, put[other]);
    ++hits;
  }
  EXPECT_GT(hits, 50);
}

TEST(PageStoreTableTest, NamesAreUniqueAndAnUnknownOneIsAnsweredWithTheList) {
  std::set<std::string> names;
  for (const PageStoreRow& row : AllPageStores()) names.insert(row.name);
  EXPECT_EQ(names.size(), AllPageStores().size());
  const auto store = OpenPageStore("floppy", {});
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(store.status().message(), testing::HasSubstr("ram"));
  EXPECT_THAT(store.status().message(), testing::EndsWith("not: floppy"));
}

}  // namespace
}  // namespace swiftkv
