// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/mount_events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "mountd/base/unique_fd.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

constexpr std::uint64_t kAttach = 0x01000000;
constexpr std::uint64_t kDetach = 0x02000000;

class MountEventsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  void Write(const std::string& bytes) {
    ASSERT_EQ(write(write_.get(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  // Returns an event as the kernel (6.18) writes it: 24 bytes, and 16 of
  // information.
  static std::string Event(std::uint64_t mask, std::uint64_t id) {
    std::string bytes = Metadata(mask, 40);
    bytes += std::string("\x07\x00\x10\x00\x00\x00\x00\x00", 8);
    bytes.append(reinterpret_cast<const char*>(&id), sizeof(id));
    return bytes;
  }
  static std::string Metadata(std::uint64_t mask, std::uint32_t length) {
    fanotify_event_metadata event{};
    event.event_len = length;
    event.vers = FANOTIFY_METADATA_VERSION;
    event.metadata_len = sizeof(event);
    event.mask = mask;
    event.fd = FAN_NOFD;
    return {reinterpret_cast<const char*>(&event), sizeof(event)};
  }

  UniqueFd read_;
  UniqueFd write_;
};

TEST_F(MountEventsTest, AreReadInTheirOrder) {
  Write(Event(kAttach, 5) + Event(kDetach, 5) + Event(kAttach | kDetach, 6));
  const auto read = ReadMountEvents(read_.get());
  ASSERT_EQ(Outcome(read), "Ok");
  ASSERT_EQ(read->events.size(), 3U);
  EXPECT_EQ(read->events[0].mount_id, 5U);
  EXPECT_TRUE(read->events[0].attached && !read->events[0].detached);
  EXPECT_TRUE(!read->events[1].attached && read->events[1].detached);
  EXPECT_TRUE(read->events[2].attached && read->events[2].detached);
  EXPECT_FALSE(read->overflowed);
  EXPECT_TRUE(ReadMountEvents(read_.get())->events.empty());
}

TEST_F(MountEventsTest, AnOverflowIsToldWithWhatWasRead) {
  Write(Event(kDetach, 5) + Metadata(FAN_Q_OVERFLOW, 24));
  const auto read = ReadMountEvents(read_.get());
  ASSERT_EQ(Outcome(read), "Ok");
  EXPECT_TRUE(read->overflowed);
  EXPECT_EQ(read->events.size(), 1U);
}

TEST_F(MountEventsTest, TheEndIsAnError) {
  write_.reset();
  EXPECT_NE(Outcome(ReadMountEvents(read_.get())), "Ok");
}

TEST_F(MountEventsTest, WhatCannotBeReadIsAnError) {
  EXPECT_EQ(Outcome(ReadMountEvents(-1)), CodeName(CodeFromErrno(EBADF)));
}

TEST_F(MountEventsTest, WhatIsNoEventIsAnErrorAndNoMore) {
  const std::string good = Event(kAttach, 5);
  std::vector<std::string> all = {good.substr(0, 39), good.substr(0, 23),
                                  Metadata(kAttach, 24), Metadata(kAttach, 0),
                                  Metadata(kAttach, 4000)};
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    all.push_back(bytes);
  }
  for (const std::string& bytes : all) {
    SetUp();
    Write(bytes);
    const auto read = ReadMountEvents(read_.get());
    if (!read) {
      EXPECT_EQ(Outcome(read), "Internal");
    }
  }
  SetUp();
  Write(good.substr(0, 39));
  EXPECT_EQ(Outcome(ReadMountEvents(read_.get())), "Internal");
}

}  // namespace
}  // namespace mountd
