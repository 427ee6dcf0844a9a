// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/task_mounts.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include "mountd/executors/holder_report.h"

namespace mountd {
namespace {

constexpr std::uint64_t kAlways = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

MountRecord Record(exec::Propagation propagation,
                   std::uint32_t attributes = 0) {
  MountRecord record;
  record.name = "data";
  record.wish.propagation = propagation;
  record.wish.attributes = attributes;
  record.peer_group =
      propagation == exec::Propagation::kBidirectional ? 5U : 0U;
  record.master = propagation == exec::Propagation::kHostToTask ? 5U : 0U;
  return record;
}

exec::TaskMount Seen(std::uint64_t peer_group, std::uint64_t master,
                     std::uint64_t attributes = kAlways) {
  return {1, 1, 0, attributes, peer_group, master};
}

std::string VerdictOn(const MountRecord& record, const exec::TaskMount& seen,
                      bool own_users = false) {
  const TaskMountVerdict judged = Judge(record, seen, own_users);
  EXPECT_EQ(judged.reason.empty(), judged.verdict == "ok");
  EXPECT_EQ(judged.name, "data");
  return judged.verdict + (judged.reason.empty() ? "" : ": ") + judged.reason;
}

TEST(TaskMountsTest, PrivateIsRightWhateverItIsInTheTask) {
  const MountRecord record = Record(exec::Propagation::kPrivate);
  EXPECT_EQ(VerdictOn(record, Seen(0, 0)), "ok");
  EXPECT_EQ(VerdictOn(record, Seen(9, 0)), "ok");
}

TEST(TaskMountsTest, HostToTaskIsRightAsASlaveOfTheSameMaster) {
  const MountRecord record = Record(exec::Propagation::kHostToTask);
  EXPECT_EQ(VerdictOn(record, Seen(0, 5)), "ok");
  EXPECT_EQ(VerdictOn(record, Seen(9, 5)), "ok");
  for (const auto& seen : {Seen(0, 0), Seen(9, 0), Seen(5, 0), Seen(0, 6)}) {
    EXPECT_EQ(VerdictOn(record, seen),
              "lost-propagation: host-to-task is lost, because the runtime's "
              "rootfsPropagation is private");
  }
}

TEST(TaskMountsTest, BidirectionalIsRightAsAPeer) {
  const MountRecord record = Record(exec::Propagation::kBidirectional);
  EXPECT_EQ(VerdictOn(record, Seen(5, 0)), "ok");
  EXPECT_EQ(VerdictOn(record, Seen(0, 5)),
            "lost-propagation: the task's mounts do not reach the host, "
            "because the runtime's rootfsPropagation is slave");
  EXPECT_EQ(VerdictOn(record, Seen(9, 5), true),
            "lost-propagation: the task's mounts cannot reach the host, "
            "because the task has its own user namespace");
  EXPECT_EQ(VerdictOn(record, Seen(0, 0)),
            "lost-propagation: bidirectional is lost, because the runtime's "
            "rootfsPropagation is private");
}

TEST(TaskMountsTest, WeakerAttributesAreNamed) {
  const MountRecord record =
      Record(exec::Propagation::kPrivate,
             exec::kReadOnly | exec::kNoExec | exec::kNoSymFollow);
  EXPECT_EQ(VerdictOn(record, Seen(0, 0, MOUNT_ATTR_NODEV)),
            "weaker: the runtime removed ro, nosuid, noexec, nosymfollow");
  EXPECT_EQ(
      VerdictOn(record, Seen(0, 0,
                             kAlways | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC |
                                 MOUNT_ATTR_NOATIME | MOUNT_ATTR_NOSYMFOLLOW)),
      "ok");
}

TEST(TaskMountsTest, WhatIsNotThereIsSaidFirst) {
  const MountRecord record = Record(exec::Propagation::kHostToTask);
  exec::TaskMount seen;
  EXPECT_TRUE(VerdictOn(record, seen).starts_with("gone: "));
  seen.exists_on_host = 1;
  EXPECT_TRUE(VerdictOn(record, seen).starts_with("missing: "));
  seen = Seen(0, 5);
  seen.covered = 1;
  EXPECT_TRUE(VerdictOn(record, seen).starts_with("covered: "));
}

TEST(TaskMountsTest, AReportIsOkIfAllMountsAre) {
  TaskReport report;
  EXPECT_TRUE(report.ok());
  report.mounts.push_back({.name = "a", .verdict = "ok", .reason = ""});
  EXPECT_TRUE(report.ok());
  report.mounts.push_back({.name = "b", .verdict = "weaker", .reason = "x"});
  EXPECT_FALSE(report.ok());
}

exec::Holder Holder(std::uint32_t pid, exec::HolderKind kind,
                    std::string_view command, int fd = -1) {
  exec::Holder holder;
  holder.pid = pid;
  holder.kind = kind;
  holder.fd = fd;
  std::copy(command.begin(), command.end(), holder.comm.begin());
  return holder;
}

TEST(HoldersTest, AreSummedUpInAFewWords) {
  exec::HoldersState state;
  EXPECT_EQ(Summary(ReportOf(state)), "");
  state.holders[0] = Holder(12, exec::HolderKind::kFd, "nginx", 5);
  state.holders[1] = Holder(13, exec::HolderKind::kCwd, "a\x1b\xff");
  state.holders[2] = Holder(14, exec::HolderKind::kMap, "fifteen-letters");
  state.holders[3] = Holder(15, exec::HolderKind::kRoot, "sh");
  state.count = 2;
  HolderReport report = ReportOf(state);
  EXPECT_EQ(Summary(report), "nginx (pid 12, fd 5), a?? (pid 13, cwd)");
  report.holders[1].details.reset();
  EXPECT_EQ(Summary(report), "nginx (pid 12, fd 5), (pid 13)");
  state.more = 1;
  EXPECT_TRUE(Summary(ReportOf(state)).ends_with(" and more"));
  state.more = 0;
  state.count = 3;
  EXPECT_TRUE(
      Summary(ReportOf(state)).ends_with("fifteen-letters (pid 14, mmap)"));
  state.count = 4;
  EXPECT_TRUE(Summary(ReportOf(state)).ends_with(" and more"));
}

}  // namespace
}  // namespace mountd
