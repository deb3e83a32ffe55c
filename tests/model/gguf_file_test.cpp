// SPDX-License-Identifier: Apache-2.0
// Tests opening of GGUF files: values with their types, places of tensors, shards, hostile files.
#include "model/gguf_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/process_memory.h"
#include "model/gguf_scan.h"
#include "support/hostile_gguf.h"
#include "support/raw_gguf.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

constexpr IntRange kAnyInt = {INT64_MIN, INT64_MAX};

class GgufFileTest : public testing::Test {
 protected:
  std::unique_ptr<GgufFile> Open(const RawGguf& gguf) {
    auto file = TryOpen(SerializeGguf(gguf));
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(*file) : nullptr;
  }

  Result<std::unique_ptr<GgufFile>> TryOpen(const std::string& bytes) {
    const std::string path = directory_.FilePath("model.gguf");
    EXPECT_TRUE(WriteBytes(path, bytes).ok());
    return GgufFile::Open(path);
  }

  std::string MessageOf(const std::string& bytes) {
    const auto file = TryOpen(bytes);
    return file.ok() ? "" : file.status().message();
  }

  TempDirectory directory_;
};

TEST_F(GgufFileTest, ValuesComeBackWithTheirTypes) {
  RawGguf gguf;
  gguf.keys = {GgufU16Key("small", 65535),          GgufI32Key("negative", -7),
               GgufF32Key("fraction", 0.25F),       GgufBoolKey("flag", true),
               GgufStringKey("text", "hello"),      GgufI32sKey("numbers", {3, -4, 5}),
               GgufStringsKey("words", {"a", "b"}), GgufU32Key("large", 4000000000U)};
  const auto file = Open(gguf);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(**file->FindInt("small", kAnyInt), 65535);
  EXPECT_EQ(**file->FindInt("negative", kAnyInt), -7);
  EXPECT_EQ(**file->FindInt("large", kAnyInt), 4000000000);
  EXPECT_EQ(**file->FindNumber("fraction"), 0.25);
  EXPECT_EQ(**file->FindNumber("negative"), -7.0);
  EXPECT_EQ(**file->FindBool("flag"), true);
  EXPECT_EQ(**file->FindString("text"), "hello");
  EXPECT_EQ(**file->FindInts("numbers", kAnyInt), (std::vector<std::int64_t>{3, -4, 5}));
  EXPECT_EQ(**file->FindInts("small", kAnyInt), (std::vector<std::int64_t>{65535}));
  EXPECT_EQ(**file->FindStringCount("words"), 2U);
  EXPECT_FALSE(file->FindStringCount("numbers").ok());
  EXPECT_EQ(**file->FindArrayLength("words"), 2U);
  EXPECT_EQ(file->ValueText("numbers"), "i32[3]");
  EXPECT_EQ(file->Keys().front(), "small");
}

TEST_F(GgufFileTest, AbsentKeysAreNothingUnlessRequired) {
  const auto file = Open(RawGguf());
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(file->FindInt("missing", kAnyInt)->has_value());
  EXPECT_FALSE(file->FindNumber("missing")->has_value());
  EXPECT_FALSE(file->FindStringCount("missing")->has_value());
  const auto required = file->RequireInt("missing.key", kAnyInt);
  EXPECT_EQ(required.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(required.status().message().find("'missing.key'"), std::string::npos);
}

TEST_F(GgufFileTest, AWrongTypeNamesTheKeyWhatItIsAndWhatItMustBe) {
  RawGguf gguf;
  gguf.keys = {GgufStringKey("a.text", "7"), GgufStringsKey("a.list", {"x"}),
               GgufF32Key("a.fraction", 1.5F)};
  const auto file = Open(gguf);
  ASSERT_NE(file, nullptr);
  EXPECT_NE(file->FindInt("a.text", kAnyInt)
                .status()
                .message()
                .find("key 'a.text' must be a whole number; it is str"),
            std::string::npos);
  EXPECT_NE(file->FindInts("a.list", kAnyInt).status().message().find("it is an array of str"),
            std::string::npos);
  EXPECT_FALSE(file->FindInt("a.fraction", kAnyInt).ok());
  EXPECT_FALSE(file->FindBool("a.text").ok());
  EXPECT_FALSE(file->FindString("a.fraction").ok());
  EXPECT_FALSE(file->FindNumber("a.text").ok());
}

TEST_F(GgufFileTest, ANumberOutsideItsRangeStatesTheRange) {
  RawGguf gguf;
  gguf.keys = {GgufU32Key("count", 9), GgufI32sKey("counts", {1, 9})};
  const auto file = Open(gguf);
  ASSERT_NE(file, nullptr);
  EXPECT_NE(file->FindInt("count", {1, 8}).status().message().find("[1, 8], not 9"),
            std::string::npos);
  EXPECT_NE(file->FindInts("counts", {1, 8}).status().message().find("element 1"),
            std::string::npos);
}

TEST_F(GgufFileTest, TensorsKnowTheirPlaceInTheFile) {
  const RawGguf gguf = MakeTinyGguf(HonestModel());
  const std::string bytes = SerializeGguf(gguf);
  const auto file = Open(gguf);
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(file->tensors().size(), gguf.tensors.size());
  for (const RawGgufTensor& raw : gguf.tensors) {
    const GgufTensor* tensor = file->FindTensor(raw.name);
    ASSERT_NE(tensor, nullptr) << raw.name;
    ASSERT_EQ(tensor->bytes, raw.data.size());
    EXPECT_EQ(bytes.substr(tensor->offset, tensor->bytes), raw.data) << raw.name;
    EXPECT_EQ(static_cast<std::uint64_t>(tensor->shape[0]), raw.shape[0]);
  }
  EXPECT_EQ(file->FindTensor("no.such.tensor"), nullptr);
}

TEST_F(GgufFileTest, DamagedStructuresAreRefusedWithTheThingNamed) {
  for (const auto& part :
       {HostileHeaders(), HostileKeys(), HostileAlignments(), HostileTensors(), TruncatedGgufs()}) {
    for (const HostileGguf& hostile : part) {
      const auto file = TryOpen(hostile.bytes);
      // A file without contents and tensors of wrong shapes are sound as GGUF files.
      if (file.ok()) continue;
      EXPECT_NE(file.status().message().find("model.gguf"), std::string::npos) << hostile.name;
      EXPECT_NE(file.status().message().find(hostile.names), std::string::npos)
          << hostile.name << ": " << file.status().message();
    }
  }
}

TEST_F(GgufFileTest, CountsThatNoFileCanHoldTakeNoMemory) {
  const std::uint64_t before = *ProcessPeakResidentBytes();
  for (const std::uint64_t count : {1ULL << 32, 1ULL << 60, 1ULL << 63, ~0ULL}) {
    RawGguf tensors;
    tensors.tensor_count = count;
    EXPECT_NE(MessageOf(SerializeGguf(tensors)).find(std::to_string(count)), std::string::npos);
    RawGguf keys;
    keys.key_count = count;
    EXPECT_NE(MessageOf(SerializeGguf(keys)).find(std::to_string(count)), std::string::npos);
    RawGguf array;
    array.keys = {GgufArrayKey("a", kGgufString, count, "")};
    EXPECT_NE(MessageOf(SerializeGguf(array)).find("'a'"), std::string::npos);
  }
  EXPECT_LT(*ProcessPeakResidentBytes() - before, 16U << 20);
}

// A hole of the file system makes a file large without bytes on disk, so sizes alone prove nothing.
TEST_F(GgufFileTest, ALongStringInASparseFileIsBoundedByTheLimitOfMetadata) {
  RawGguf gguf;
  gguf.keys = {RawGgufKey{"text", kGgufString, GgufBytes(std::uint64_t{1} << 31)}};
  const std::string path = directory_.FilePath("sparse.gguf");
  ASSERT_TRUE(WriteBytes(path, SerializeGguf(gguf)).ok());
  std::filesystem::resize_file(path, std::uint64_t{1} << 33);
  const auto file = GgufFile::Open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("'text'"), std::string::npos);
}

TEST_F(GgufFileTest, MissingFilesAndFoldersAreNamed) {
  const std::string missing = directory_.FilePath("nowhere.gguf");
  EXPECT_EQ(GgufFile::Open(missing).status().code(), StatusCode::kNotFound);
  EXPECT_NE(GgufFile::Open(missing).status().message().find(missing), std::string::npos);
  EXPECT_EQ(GgufFile::Open(directory_.path().string()).status().code(), StatusCode::kNotFound);
}

class SplitGgufTest : public GgufFileTest {
 protected:
  void SetUp() override {
    auto paths = WriteTinySplit(HonestModel(), 3, directory_.path());
    ASSERT_TRUE(paths.ok()) << paths.status().message();
    paths_ = *paths;
  }

  std::vector<std::string> paths_;
};

TEST_F(SplitGgufTest, AllShardsTogetherHoldWhatTheWholeFileHolds) {
  const auto whole = Open(MakeTinyGguf(HonestModel()));
  const auto split = GgufFile::Open(paths_[0]);
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_EQ((*split)->num_shards(), 3);
  ASSERT_EQ((*split)->tensors().size(), whole->tensors().size());
  for (const GgufTensor& tensor : whole->tensors()) {
    const GgufTensor* part = (*split)->FindTensor(tensor.name);
    ASSERT_NE(part, nullptr) << tensor.name;
    std::vector<std::byte> a(tensor.bytes);
    std::vector<std::byte> b(part->bytes);
    ASSERT_TRUE(whole->shard(tensor.shard)->Read(tensor.offset, a).ok());
    ASSERT_TRUE((*split)->shard(part->shard)->Read(part->offset, b).ok());
    EXPECT_EQ(a, b) << tensor.name;
  }
}

TEST_F(SplitGgufTest, AMissingShardIsNamed) {
  std::filesystem::remove(paths_[1]);
  const auto file = GgufFile::Open(paths_[0]);
  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_NE(file.status().message().find(paths_[1]), std::string::npos);
}

TEST_F(SplitGgufTest, OpeningALaterShardNamesTheFirst) {
  const auto file = GgufFile::Open(paths_[1]);
  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(file.status().message().find(paths_[0]), std::string::npos);
}

TEST_F(SplitGgufTest, ARenamedFirstShardSaysWhatItsNameMustBe) {
  const std::string renamed = directory_.FilePath("renamed.gguf");
  std::filesystem::copy_file(paths_[0], renamed);
  EXPECT_NE(GgufFile::Open(renamed).status().message().find("-00001-of-00003.gguf"),
            std::string::npos);
}

TEST_F(SplitGgufTest, AShardOfAnotherPlaceIsNotTakenForTheMissingOne) {
  std::filesystem::copy_file(paths_[2], paths_[1],
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(GgufFile::Open(paths_[0]).status().message().find("'split.no'"), std::string::npos);
}

TEST(MappedFileTest, AFileThatShrankIsNoticed) {
  const TempDirectory directory;
  const std::string path = directory.FilePath("bytes");
  ASSERT_TRUE(WriteBytes(path, std::string(10000, 'x')).ok());
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Map().ok());
  EXPECT_EQ((*file)->bytes().size(), 10000U);
  EXPECT_EQ((*file)->bytes()[9999], std::byte{'x'});
  EXPECT_TRUE((*file)->CheckSize().ok());
  std::filesystem::resize_file(path, 5000);
  EXPECT_EQ((*file)->CheckSize().code(), StatusCode::kDataLoss);
  std::vector<std::byte> tail(100);
  EXPECT_EQ((*file)->Read(9000, tail).code(), StatusCode::kDataLoss);
}

TEST(MappedFileTest, DroppedPagesLeaveTheProcessAndComeBackWhenTouched) {
  const TempDirectory directory;
  const std::string path = directory.FilePath("bytes");
  constexpr std::uint64_t kBytes = 1 << 20;
  ASSERT_TRUE(WriteBytes(path, std::string(kBytes, 'x')).ok());
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok() && (*file)->Map().ok());
  (*file)->Populate(0, kBytes);
  const void* data = (*file)->bytes().data();
  EXPECT_EQ(*ResidentBytes(data, kBytes), kBytes);
  // Pages that a neighbour shares stay.
  (*file)->Drop(100, kBytes / 2);
  EXPECT_EQ(*ResidentBytes(data, kBytes), kBytes / 2 + 4096);
  EXPECT_EQ((*file)->bytes()[5000], std::byte{'x'});
}

TEST(QuotedForMessageTest, EscapesWhatATerminalWouldObeyAndCutsWhatIsLong) {
  EXPECT_EQ(QuotedForMessage("plain"), "'plain'");
  EXPECT_EQ(QuotedForMessage("a\x1b[2J\n"), "'a\\x1b[2J\\x0a'");
  EXPECT_EQ(QuotedForMessage("\xff"), "'\\xff'");
  EXPECT_EQ(QuotedForMessage(std::string(100, 'k')), "'" + std::string(64, 'k') + "...'");
}

}  // namespace
}  // namespace swiftkv
