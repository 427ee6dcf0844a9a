// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/mounts/mounts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/full_disk.h"
#include "tests/unit/mountd/mounts/mounts_test.h"

namespace mountd {
namespace {

using exec::Propagation;
using exec::SourceKind;

BindMountRequest Tmpfs(const std::string& name, std::uint64_t bytes) {
  BindMountRequest spec = Spec(name, "");
  spec.wish.source_kind = SourceKind::kTmpfs;
  spec.wish.tmpfs = {bytes, 4, 0700, 1000, 1000, 0};
  return spec;
}

TEST_F(MountsTest, ABindMountIsThereAndRecorded) {
  BindMountRequest spec = Spec("d", "data");
  spec.wish.propagation = Propagation::kHostToTask;
  spec.wish.attributes = exec::kNoExec;
  const auto config = Bind(spec);
  ASSERT_EQ(MessageOf(config), "Ok");
  EXPECT_EQ(config->host_path, "/run/mountd/base/a/web/task/d");
  const MountRecord record = RecordOf().value();
  EXPECT_EQ(record.state, MountRecordState::kAttached);
  EXPECT_EQ(record.mount_id, executor().MountIdOf("web/task/d"));
  EXPECT_NE(record.master, 0U);
  EXPECT_EQ(record.master, config->record.master);
  EXPECT_EQ(record.peer_group, 0U);
  EXPECT_EQ(record.wish.task_path, "/d");
  EXPECT_EQ(core_.boot->anchors.ListAnchors()->at(kData),
            executor().AnchorOf("data"));
  EXPECT_EQ(Existing(), mounted_);

  const exec::AttachPlan plan = executor().plans().back().body.attach;
  EXPECT_EQ(plan.source.host_volume.view(), "data");
  EXPECT_EQ(plan.propagation, Propagation::kHostToTask);
  EXPECT_EQ(plan.attributes, static_cast<std::uint32_t>(exec::kNoExec));
}

TEST_F(MountsTest, TheIntentIsRecordedBeforeThePlan) {
  executor().script().Block("Attach");
  std::thread binding([this] { EXPECT_EQ(MessageOf(Bind()), "Ok"); });
  ASSERT_TRUE(executor().script().AwaitBlocked("Attach"));
  EXPECT_EQ(StateOf(), MountRecordState::kAttaching);
  executor().script().Unblock("Attach");
  binding.join();
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
}

TEST_F(MountsTest, WithoutAnIntentThereIsNoPlan) {
  {
    const FullDisk full;
    EXPECT_NE(Outcome(Bind()), "Ok");
  }
  EXPECT_EQ(executor().plans().size(), 1U);  // the allocation's plan
  EXPECT_FALSE(RecordOf().has_value());
  EXPECT_EQ(MessageOf(Bind()), "Ok");
}

TEST_F(MountsTest, TheSameSpecAgainMountsNothing) {
  const auto first = Bind();
  const auto second = Bind();
  ASSERT_EQ(MessageOf(second), "Ok");
  EXPECT_EQ(second->host_path, first->host_path);
  EXPECT_EQ(second->record.mount_id, first->record.mount_id);
  EXPECT_EQ(executor().script().Count("Attach"), 1U);
}

TEST_F(MountsTest, AnyOtherSpecOfTheNameIsAlreadyExists) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  const auto changed = [](auto change) {
    BindMountRequest spec = Spec("d", "data");
    change(spec);
    return spec;
  };
  const BindMountRequest others[] = {
      Spec("d", "logs"),
      changed(
          [](auto& s) { s.wish.propagation = Propagation::kBidirectional; }),
      changed([](auto& s) { s.wish.attributes = exec::kReadOnly; }),
      changed([](auto& s) { s.wish.task_path = "/elsewhere"; }),
      changed([](auto& s) { s.wish.ids.count = 1; }),
      changed([](auto& s) { s.wish.ids.gid_count = 1; }),
      changed(
          [](auto& s) { s.wish.source_kind = SourceKind::kPublishedVolume; }),
  };
  for (const BindMountRequest& other : others) {
    EXPECT_EQ(Outcome(Bind(other)), "AlreadyExists");
  }
  EXPECT_EQ(Existing(), mounted_);
}

TEST_F(MountsTest, AFailureBeforeTheEffectLeavesNothing) {
  executor().FailNext("Attach", Code::kPermissionDenied);
  EXPECT_EQ(Outcome(Bind()), "PermissionDenied");
  EXPECT_EQ(Existing(), nothing_);
  EXPECT_FALSE(RecordOf().has_value());
  EXPECT_EQ(MessageOf(Bind()), "Ok");
}

TEST_F(MountsTest, AnUnknownOutcomeIsUndone) {
  for (const Code code : {Code::kUnavailable, Code::kDeadlineExceeded}) {
    executor().FailNext("Attach", code, FailWhen::kAfter);
    EXPECT_EQ(Outcome(Bind()), CodeName(code));
    EXPECT_EQ(Existing(), nothing_);
    EXPECT_FALSE(RecordOf().has_value());
    EXPECT_TRUE(core_.boot->anchors.ListAnchors()->empty());
  }
}

TEST_F(MountsTest, WhatCannotBeUndoneIsClearedByTheNextTry) {
  executor().FailNext("Attach", Code::kUnavailable, FailWhen::kAfter);
  executor().FailNext("InspectTarget", Code::kUnavailable);
  EXPECT_EQ(Outcome(Bind()), "Unavailable");
  EXPECT_EQ(StateOf(), MountRecordState::kAttaching);
  const std::uint64_t left = executor().MountIdOf("web/task/d");
  EXPECT_NE(left, 0U);

  EXPECT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_NE(executor().MountIdOf("web/task/d"), left);
  EXPECT_EQ(Existing(), mounted_);
}

// Without the intent nobody would know of the anchor.
TEST_F(MountsTest, AnIntentStaysUntilItsAnchorIsInDoubt) {
  executor().FailNext("Attach", Code::kUnavailable, FailWhen::kAfter);
  executor().script().Block("Attach");
  std::thread binding([this] { EXPECT_EQ(Outcome(Bind()), "Unavailable"); });
  ASSERT_TRUE(executor().script().AwaitBlocked("Attach"));
  {
    const FullDisk full;
    executor().script().Unblock("Attach");
    binding.join();
  }
  EXPECT_EQ(StateOf(), MountRecordState::kAttaching);
  EXPECT_EQ(Existing(), mounted_);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsTest, WhatCannotBeUndoneIsClearedByTheUnmount) {
  executor().FailNext("Attach", Code::kUnavailable, FailWhen::kAfter);
  executor().FailNext("Detach", Code::kUnavailable);
  EXPECT_EQ(Outcome(Bind()), "Unavailable");
  EXPECT_EQ(StateOf(), MountRecordState::kAttaching);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(executor().MountIdOf("web/task/d"), 0U);
  EXPECT_FALSE(RecordOf().has_value());
}

TEST_F(MountsTest, AnothersMountAtTheTargetStays) {
  executor().ReplaceMount("web/task/d");
  const std::uint64_t there = executor().MountIdOf("web/task/d");
  EXPECT_EQ(Outcome(Bind()), "AlreadyExists");
  EXPECT_EQ(executor().MountIdOf("web/task/d"), there);
  EXPECT_FALSE(RecordOf().has_value());
}

TEST_F(MountsTest, UnmountingTakesTheMountAndTheAnchor) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(Existing(), nothing_);
  EXPECT_FALSE(RecordOf().has_value());
  EXPECT_TRUE(core_.boot->anchors.ListAnchors()->empty());
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
}

TEST_F(MountsTest, BusyStaysAttached) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  executor().SetBusy("web/task/d");
  EXPECT_EQ(Outcome(Unmount()), "Busy");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(Existing(), mounted_);
  executor().SetBusy("web/task/d", false);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsTest, ADetachOfUnknownOutcomeIsFinishedByTheNext) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  executor().FailNext("Detach", Code::kDeadlineExceeded, FailWhen::kAfter);
  EXPECT_EQ(Outcome(Unmount()), "DeadlineExceeded");
  EXPECT_EQ(StateOf(), MountRecordState::kDetaching);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsTest, TheAnchorGoesWithTheLastUser) {
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  ASSERT_EQ(MessageOf(Bind(Spec("e", "data"))), "Ok");
  ASSERT_EQ(MessageOf(Unmount("d")), "Ok");
  EXPECT_NE(executor().AnchorOf("data"), 0U);
  ASSERT_EQ(MessageOf(Unmount("e")), "Ok");
  EXPECT_EQ(executor().AnchorOf("data"), 0U);
}

TEST_F(MountsTest, AnAnchorInUseIsKeptForTheNextUser) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  executor().SetBusy("data");
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(core_.boot->anchors.ListAnchors()->at(kData),
            executor().AnchorOf("data"));
  executor().SetBusy("data", false);
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsTest, AHostVolumeThatIsAMountGetsNoAnchor) {
  executor().SetOwnMount("data");
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_TRUE(core_.boot->anchors.ListAnchors()->empty());
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(executor().script().Count("ReleaseAnchor"), 0U);
}

TEST_F(MountsTest, OneThatCannotGoDoesNotKeepTheOthers) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(MessageOf(Bind(Spec(name, "data"))), "Ok");
  }
  executor().SetBusy("web/task/b");
  EXPECT_EQ(Outcome(mounts().UnmountAll("web")), "Busy");
  const auto left = mounts().Of("web").value();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].record.name, "b");
  executor().SetBusy("web/task/b", false);
  EXPECT_EQ(MessageOf(mounts().UnmountAll("web")), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST(MountsLimitTest, OneMoreThanTheLimitIsResourceExhausted) {
  Config config = Core::DefaultConfig();
  config.limits.mounts_per_allocation = 2;
  Core core(config);
  ASSERT_EQ(Outcome(core.executor->PrepareAllocation({exec::ToWire("web"), 1})),
            "Ok");
  ASSERT_EQ(MessageOf(core.mounts->Bind(Spec("a", "data"))), "Ok");
  ASSERT_EQ(MessageOf(core.mounts->Bind(Spec("b", "data"))), "Ok");
  EXPECT_EQ(Outcome(core.mounts->Bind(Spec("c", "data"))), "ResourceExhausted");
  EXPECT_EQ(MessageOf(core.mounts->Bind(Spec("b", "data"))), "Ok");
  ASSERT_EQ(MessageOf(core.mounts->Unmount("web", "task", "a")), "Ok");
  EXPECT_EQ(MessageOf(core.mounts->Bind(Spec("c", "data"))), "Ok");
}

TEST(MountsLimitTest, OneThatCouldNotBeRecordedIsNotCounted) {
  Config config = Core::DefaultConfig();
  config.limits.mounts_per_allocation = 3;
  Core core(config);
  ASSERT_EQ(Outcome(core.executor->PrepareAllocation({exec::ToWire("web"), 1})),
            "Ok");
  ASSERT_EQ(MessageOf(core.mounts->Bind(Spec("a", "data"))), "Ok");
  ASSERT_EQ(MessageOf(core.mounts->Bind(Spec("b", "data"))), "Ok");
  for (int i = 0; i < 2; ++i) {
    const FullDisk full;
    EXPECT_NE(Outcome(core.mounts->Bind(Spec("c", "data"))), "Ok");
  }
  EXPECT_EQ(MessageOf(core.mounts->Bind(Spec("c", "data"))), "Ok");
  EXPECT_EQ(Outcome(core.mounts->Bind(Spec("d", "data"))), "ResourceExhausted");
}

BindMountRequest Directory(const std::string& name, Propagation propagation) {
  BindMountRequest spec = Spec(name, "/home/agent/" + name);
  spec.uid = 7;
  spec.wish.source_kind = SourceKind::kDirectory;
  spec.wish.propagation = propagation;
  return spec;
}

Config WithPropagatedDirectories(std::uint32_t most) {
  Config config = Core::DefaultConfig();
  config.limits.propagated_directories_per_uid = most;
  return config;
}

TEST(PropagatedDirectories, AreBoundedForEachUser) {
  Core core(WithPropagatedDirectories(2));
  for (const char* allocation : {"web", "db"}) {
    ASSERT_TRUE(
        core.executor->PrepareAllocation({exec::ToWire(allocation), 1}));
  }
  const auto bind = [&](const BindMountRequest& spec) {
    return MessageOf(core.mounts->Bind(spec));
  };
  ASSERT_EQ(bind(Directory("a", Propagation::kHostToTask)), "Ok");
  BindMountRequest in_other = Directory("b", Propagation::kHostToTask);
  in_other.allocation = "db";
  ASSERT_EQ(bind(in_other), "Ok");
  const BindMountRequest third = Directory("c", Propagation::kHostToTask);
  EXPECT_EQ(Outcome(core.mounts->Bind(third)), "ResourceExhausted");
  EXPECT_NE(bind(third).find("limits.propagated_directories_per_uid"),
            std::string::npos);
  EXPECT_FALSE(*core.boot->mounts.GetMount("web", "task", "c"));
  // Others do not count, and a repeated call needs no room.
  EXPECT_EQ(bind(in_other), "Ok");
  EXPECT_EQ(bind(Directory("private", Propagation::kPrivate)), "Ok");
  BindMountRequest volume = Spec("volume", "data");
  volume.uid = 7;
  volume.wish.propagation = Propagation::kHostToTask;
  EXPECT_EQ(bind(volume), "Ok");
  BindMountRequest others = Directory("others", Propagation::kHostToTask);
  others.uid = 8;
  EXPECT_EQ(bind(others), "Ok");
  ASSERT_EQ(MessageOf(core.mounts->Unmount("db", "task", "b")), "Ok");
  EXPECT_EQ(bind(third), "Ok");
}

TEST(PropagatedDirectories, AreForbiddenByALimitOfNone) {
  Core core(WithPropagatedDirectories(0));
  ASSERT_TRUE(core.executor->PrepareAllocation({exec::ToWire("web"), 1}));
  EXPECT_EQ(
      Outcome(core.mounts->Bind(Directory("a", Propagation::kHostToTask))),
      "ResourceExhausted");
  EXPECT_EQ(MessageOf(core.mounts->Bind(Directory("a", Propagation::kPrivate))),
            "Ok");
}

// Naively, by a count before the record, each thread would find the room.
TEST(PropagatedDirectories, AreNoMoreByCallsAtTheSameTime) {
  Core core(WithPropagatedDirectories(3));
  std::vector<std::thread> threads;
  std::atomic<int> mounted = 0;
  for (int i = 0; i < 16; ++i) {
    const std::string allocation = "a" + std::to_string(i);
    ASSERT_TRUE(
        core.executor->PrepareAllocation({exec::ToWire(allocation), 1}));
    threads.emplace_back([&core, &mounted, allocation] {
      BindMountRequest spec = Directory("d", Propagation::kHostToTask);
      spec.allocation = allocation;
      mounted += core.mounts->Bind(spec) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(mounted, 3);
  EXPECT_EQ(*core.boot->mounts.CountPropagatedDirectories(7), 3U);
}

// The store was lost, so nobody knows whether the source is a directory.
TEST(PropagatedDirectories, CountAMountThatWasFound) {
  Core core(WithPropagatedDirectories(1));
  ASSERT_TRUE(core.executor->PrepareAllocation({exec::ToWire("web"), 1}));
  exec::FoundTarget found;
  found.target = exec::Target("web", "task", "a");
  found.state.mount_id = 4711;
  ASSERT_EQ(MessageOf(core.mounts->RecordFound(found, 7)), "Ok");
  EXPECT_EQ(*core.boot->mounts.CountPropagatedDirectories(7), 0U);
  found.target = exec::Target("web", "task", "b");
  found.state.master = 3;
  ASSERT_EQ(MessageOf(core.mounts->RecordFound(found, 7)), "Ok");
  EXPECT_EQ(
      Outcome(core.mounts->Bind(Directory("c", Propagation::kHostToTask))),
      "ResourceExhausted");
  ASSERT_EQ(MessageOf(core.mounts->Unmount("web", "task", "b")), "Ok");
  EXPECT_EQ(
      MessageOf(core.mounts->Bind(Directory("c", Propagation::kHostToTask))),
      "Ok");
}

TEST_F(MountsTest, AFilesystemGoesWithItsLastUser) {
  BindMountRequest spec = Spec("one", "data");
  spec.wish.source_kind = SourceKind::kFilesystem;
  ASSERT_EQ(MessageOf(Bind(spec)), "Ok");
  EXPECT_EQ(executor().plans().back().body.attach.source.filesystem.view(),
            "data");
  // A host volume of the same name is another source.
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  spec.name = "two";
  ASSERT_EQ(MessageOf(Bind(spec)), "Ok");
  const AnchorKey key{SourceKind::kFilesystem, "data"};
  EXPECT_EQ(core_.boot->anchors.ListAnchors()->at(key),
            executor().AnchorOf("file system data"));
  ASSERT_EQ(MessageOf(Unmount("one")), "Ok");
  EXPECT_TRUE(core_.boot->anchors.ListAnchors()->contains(key));
  ASSERT_EQ(MessageOf(Unmount("two")), "Ok");
  EXPECT_FALSE(core_.boot->anchors.ListAnchors()->contains(key));
  EXPECT_EQ(Existing(), mounted_);
}

TEST_F(MountsTest, ATmpfsIsKeptAsItWasAskedFor) {
  const BindMountRequest spec = Tmpfs("t", 8192);
  const auto first = Bind(spec);
  ASSERT_EQ(MessageOf(first), "Ok");
  EXPECT_EQ(executor().plans().back().body.attach.source.tmpfs,
            spec.wish.tmpfs);
  EXPECT_EQ(RecordOf("t").value().wish.tmpfs, spec.wish.tmpfs);
  EXPECT_EQ(Bind(spec)->record.mount_id, first->record.mount_id);
  EXPECT_EQ(executor().script().Count("Attach"), 1U);
  BindMountRequest other = spec;
  other.wish.tmpfs.mode = 0750;
  EXPECT_EQ(Outcome(Bind(other)), "AlreadyExists");
  EXPECT_EQ(MessageOf(Unmount("t")), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST(MountsLimitTest, OfTmpfsAreOfOneMountAndOfTheAllocation) {
  Config config = Core::DefaultConfig();
  config.limits.tmpfs_bytes = 8192;
  config.limits.tmpfs_bytes_per_allocation = 16384;
  Core core(config);
  for (const char* allocation : {"web", "db"}) {
    ASSERT_EQ(Outcome(core.executor->PrepareAllocation(
                  {exec::ToWire(allocation), 1})),
              "Ok");
  }
  const auto bind = [&](const BindMountRequest& spec) {
    return MessageOf(core.mounts->Bind(spec));
  };
  EXPECT_NE(bind(Tmpfs("a", 8193)).find("limits.tmpfs_bytes;"),
            std::string::npos);
  EXPECT_EQ(Outcome(core.mounts->Bind(Tmpfs("a", 8193))), "ResourceExhausted");
  EXPECT_EQ(bind(Tmpfs("a", 8192)), "Ok");
  EXPECT_EQ(bind(Tmpfs("b", 8191)), "Ok");
  EXPECT_NE(bind(Tmpfs("c", 4096))
                .find("would exceed limits.tmpfs_bytes_per_allocation"),
            std::string::npos);
  EXPECT_EQ(bind(Spec("d", "data")), "Ok");
  BindMountRequest elsewhere = Tmpfs("a", 8192);
  elsewhere.allocation = "db";
  EXPECT_EQ(bind(elsewhere), "Ok");
  ASSERT_EQ(MessageOf(core.mounts->Unmount("web", "task", "b")), "Ok");
  EXPECT_EQ(bind(Tmpfs("c", 8192)), "Ok");
}

// The tmpfs is larger than the allocation's limit, so the limit minus the
// tmpfs's size would be negative, and must not wrap around.
TEST(MountsLimitTest, OneTmpfsMayBeLargerThanAnAllocationsTogether) {
  Config config = Core::DefaultConfig();
  config.limits.tmpfs_bytes = 16384;
  config.limits.tmpfs_bytes_per_allocation = 8192;
  Core core(config);
  ASSERT_EQ(Outcome(core.executor->PrepareAllocation({exec::ToWire("web"), 1})),
            "Ok");
  const auto refused = core.mounts->Bind(Tmpfs("a", 12288));
  EXPECT_EQ(Outcome(refused), "ResourceExhausted");
  EXPECT_NE(
      MessageOf(refused).find("would exceed limits.tmpfs_bytes_per_allocation"),
      std::string::npos);
  EXPECT_EQ(MessageOf(core.mounts->Bind(Tmpfs("a", 8192))), "Ok");
}

TEST(PropagationNameTest, NamesAreReadAsTheyAreWritten) {
  for (const auto mode : {Propagation::kPrivate, Propagation::kHostToTask,
                          Propagation::kBidirectional}) {
    EXPECT_EQ(*ParsePropagationName(PropagationName(mode)), mode);
  }
  EXPECT_EQ(Outcome(ParsePropagationName("shared")), "InvalidArgument");
  EXPECT_EQ(RequiredRootfsPropagation(Propagation::kPrivate), "private");
  EXPECT_EQ(RequiredRootfsPropagation(Propagation::kHostToTask), "slave");
  EXPECT_EQ(RequiredRootfsPropagation(Propagation::kBidirectional), "shared");
}

}  // namespace
}  // namespace mountd
