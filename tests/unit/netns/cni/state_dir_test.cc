// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/state_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd::cni {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kMoment(20);
constexpr std::chrono::seconds kLong(60);
constexpr int kNoStop = -1;

Record SomeRecord() {
  Record record;
  record.list = *ParseNetworkList(
      R"({"name":"net","cniVersion":"1.0.0","type":"first"})", "x");
  record.version = "1.0.0";
  record.attachment = {"web", "eth0"};
  record.netns = "/run/netns/web";
  record.netns_inode = 42;
  record.args = "IgnoreUnknown=1";
  record.capabilities = {{"mac", "02:00:00:00:00:01"}};
  record.result = {{"cniVersion", "1.0.0"}};
  record.complete = true;
  return record;
}

class CniStateDirTest : public ::testing::Test {
 protected:
  CniStateDirTest() : state_(Open()) {}

  Result<StateDir> Open() const {
    return StateDir::Open(temp_.File("state"), temp_.File("kept"));
  }

  TempDirectory temp_;
  Result<StateDir> state_;
};

TEST_F(CniStateDirTest, ARecordIsWhatWasSaved) {
  ASSERT_EQ(MessageOf(state_), "Ok");
  const Record record = SomeRecord();
  ASSERT_EQ(MessageOf(state_->Save(record)), "Ok");
  const auto loaded = state_->Load(record.attachment);
  ASSERT_EQ(MessageOf(loaded), "Ok");
  ASSERT_TRUE(loaded->has_value());
  EXPECT_EQ(ToJson(**loaded), ToJson(record));
  EXPECT_EQ(state_->List()->size(), 1U);
  ASSERT_EQ(MessageOf(state_->Remove(record.attachment)), "Ok");
  EXPECT_FALSE(state_->Load(record.attachment)->has_value());
  EXPECT_EQ(MessageOf(state_->Remove(record.attachment)), "Ok");
  EXPECT_TRUE(state_->List()->empty());
}

TEST_F(CniStateDirTest, NamesDoNotRunTogether) {
  Record record = SomeRecord();
  record.attachment = {"a.b", "c"};
  ASSERT_EQ(MessageOf(state_->Save(record)), "Ok");
  EXPECT_FALSE(state_->Load({"a", "b.c"})->has_value());
  EXPECT_TRUE(state_->Load({"a.b", "c"})->has_value());
}

TEST_F(CniStateDirTest, WhatWasLeftHalfWrittenIsNoRecord) {
  std::ofstream(temp_.File("state/records/.web@eth0")) << "{";
  EXPECT_TRUE(state_->List()->empty());
  EXPECT_EQ(MessageOf(state_->Save(SomeRecord())), "Ok");
  EXPECT_EQ(state_->List()->size(), 1U);
}

TEST_F(CniStateDirTest, ABadRecordIsToldApartFromNone) {
  for (const char* text : {"", "{}", R"({"format":2})", R"({"format":1})"}) {
    std::ofstream(temp_.File("state/records/web@eth0")) << text;
    ::chmod(temp_.File("state/records/web@eth0").c_str(), 0600);
    EXPECT_EQ(Outcome(state_->Load({"web", "eth0"})), "InvalidArgument")
        << text;
  }
  // The file has the record of another attachment.
  ASSERT_EQ(MessageOf(state_->Save(SomeRecord())), "Ok");
  fs::rename(temp_.File("state/records/web@eth0"),
             temp_.File("state/records/other@eth0"));
  EXPECT_EQ(Outcome(state_->Load({"other", "eth0"})), "InvalidArgument");
}

TEST_F(CniStateDirTest, ItIsRootsAlone) {
  struct stat facts {};
  ASSERT_EQ(::stat(temp_.File("state/records").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0700U);
  fs::permissions(temp_.File("state"), fs::perms(0750));
  EXPECT_EQ(Outcome(Open()), "PermissionDenied");
  fs::create_directory_symlink("state", temp_.File("link"));
  const auto open = [&](const std::string& path) {
    return Outcome(StateDir::Open(path, ""));
  };
  EXPECT_EQ(open(temp_.File("link")), "PermissionDenied");
  EXPECT_EQ(open("state"), "InvalidArgument");
  EXPECT_EQ(open(temp_.File("no/state")), "NotFound");
  fs::permissions(temp_.File("state"), fs::perms(0700));
  ASSERT_EQ(Outcome(Open()), "Ok");
  fs::permissions(temp_.File("kept"), fs::perms(0750));
  EXPECT_EQ(Outcome(Open()), "PermissionDenied");
}

TEST_F(CniStateDirTest, WhatIsKeptAloneIsOfAnEarlierBoot) {
  const Record record = SomeRecord();
  ASSERT_EQ(MessageOf(state_->Keep(record)), "Ok");
  ASSERT_EQ(MessageOf(state_->Save(record)), "Ok");
  EXPECT_FALSE(state_->IsOfEarlierBoot(record.attachment));
  EXPECT_FALSE((*state_->Load(record.attachment))->earlier_boot);
  EXPECT_EQ(state_->List()->size(), 1U);
  fs::remove_all(temp_.File("state"));
  state_ = Open();
  ASSERT_EQ(MessageOf(state_), "Ok");
  EXPECT_EQ(*state_->List(), std::vector{record.attachment});
  EXPECT_TRUE(state_->IsOfEarlierBoot(record.attachment));
  const auto loaded = state_->Load(record.attachment);
  ASSERT_EQ(MessageOf(loaded), "Ok");
  ASSERT_TRUE(loaded->has_value());
  EXPECT_TRUE((*loaded)->earlier_boot);
  EXPECT_FALSE((*loaded)->complete);
  EXPECT_EQ((*loaded)->list.name, "net");
  ASSERT_EQ(MessageOf(state_->Remove(record.attachment)), "Ok");
  EXPECT_TRUE(state_->List()->empty());
  EXPECT_TRUE(fs::is_empty(temp_.File("kept")));
}

TEST_F(CniStateDirTest, WithoutItsDirectoryNothingIsKept) {
  ASSERT_EQ(
      MessageOf(StateDir::Open(temp_.File("state"), "")->Keep(SomeRecord())),
      "Ok");
  EXPECT_TRUE(fs::is_empty(temp_.File("kept")));
}

TEST_F(CniStateDirTest, LocksThatNobodyTookAwayGo) {
  ASSERT_EQ(MessageOf(state_->Save(SomeRecord())), "Ok");
  for (const char* name : {"web@eth0", "gone@eth0", "@"}) {
    std::ofstream(temp_.File("state/locks/") + name) << "";
  }
  ASSERT_EQ(MessageOf(state_->ForgetLocksWithoutRecords()), "Ok");
  EXPECT_TRUE(fs::exists(temp_.File("state/locks/web@eth0")));
  EXPECT_FALSE(fs::exists(temp_.File("state/locks/gone@eth0")));
  EXPECT_TRUE(fs::exists(temp_.File("state/locks/@")));
}

TEST_F(CniStateDirTest, ALockIsHeldByOne) {
  const Attachment web{"web", "eth0"};
  auto held = state_->Lock(web, Deadline::After(kLong), kNoStop);
  ASSERT_EQ(MessageOf(held), "Ok");
  EXPECT_EQ(Outcome(state_->Lock(web, Deadline::After(kMoment), kNoStop)),
            "DeadlineExceeded");
  EXPECT_EQ(
      Outcome(state_->Lock({"db", "eth0"}, Deadline::After(kLong), kNoStop)),
      "Ok");
  state_->ForgetLock(web);
  held->reset();
  EXPECT_EQ(Outcome(state_->Lock(web, Deadline::After(kLong), kNoStop)), "Ok");
}

TEST_F(CniStateDirTest, OneWhoIsAloneIsSo) {
  using Share = StateDir::Share;
  const auto lock = [&](Share share, std::chrono::milliseconds time) {
    return state_->LockAll(share, Deadline::After(time), kNoStop);
  };
  auto one = lock(Share::kWithOthers, kLong);
  auto two = lock(Share::kWithOthers, kLong);
  ASSERT_EQ(Outcome(two), "Ok");
  EXPECT_EQ(Outcome(lock(Share::kAlone, kMoment)), "DeadlineExceeded");
  one->reset();
  two->reset();
  const auto alone = lock(Share::kAlone, kLong);
  ASSERT_EQ(Outcome(alone), "Ok");
  EXPECT_EQ(Outcome(lock(Share::kWithOthers, kMoment)), "DeadlineExceeded");
}

TEST_F(CniStateDirTest, WhoHasToEndDoesNotWait) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[1]);
  const Attachment web{"web", "eth0"};
  const auto held = state_->Lock(web, Deadline::After(kLong), kNoStop);
  EXPECT_EQ(Outcome(state_->Lock(web, Deadline::After(kLong), ends[0])),
            "Aborted");
  ::close(ends[0]);
}

}  // namespace
}  // namespace mountd::cni
