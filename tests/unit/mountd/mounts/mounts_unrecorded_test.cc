// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Mounts whose records cannot be written or read, mounts that were found
// without a record, and the anchors of each kind of source meanwhile.
#include "tests/support/fakes/failing_store.h"
#include "tests/unit/mountd/mounts/mounts_test.h"

namespace mountd {
namespace {

using exec::SourceKind;

class MountsUnrecordedTest : public MountsTest {
 protected:
  store::Database& database() { return boot().database(); }
  Result<Mounts::Replaced> Replace(const BindMountRequest& spec) {
    return mounts().Replace(spec);
  }
  // Returns a mount of a volume that the plugin has published.
  BindMountRequest Published(const std::string& name, int number = 1) {
    BindMountRequest spec = Spec(name, "alias " + std::to_string(number));
    spec.wish.source_kind = SourceKind::kPublishedVolume;
    spec.plugin = "nfs";
    spec.volume = VolumeKey::Derive("nfs", std::to_string(number));
    executor().PutVolume("nfs", "publish/web/" + spec.volume.str());
    return spec;
  }
  static BindMountRequest Tmpfs(const std::string& name) {
    BindMountRequest spec = Spec(name, "");
    spec.wish.source_kind = SourceKind::kTmpfs;
    spec.wish.tmpfs.bytes = 4096;
    return spec;
  }
  // Removes all records, and lets mountd find what is at the targets.
  void FindAll() {
    const auto records = boot().mounts.ListMounts();
    for (const MountRecord& record : *records) {
      ASSERT_EQ(Outcome(boot().mounts.RemoveMount(record)), "Ok");
    }
    const auto anchors = boot().anchors.ListAnchors();
    for (const auto& [key, id] : *anchors) {
      ASSERT_EQ(Outcome(boot().anchors.RemoveAnchor(key)), "Ok");
    }
    core_.Restart();
    const std::vector<exec::FoundTarget> targets =
        executor().ListTargets().value();
    for (const exec::FoundTarget& found : targets) {
      ASSERT_EQ(MessageOf(mounts().RecordFound(found, 0)), "Ok");
    }
    ASSERT_EQ(MessageOf(mounts().DoubtAllAnchors()), "Ok");
    ASSERT_EQ(MessageOf(mounts().Recover()), "Ok");
  }
  std::vector<std::string> AllThere() {
    mounts().ReleaseLeftAnchors();
    return Existing();
  }
};

// ---- Records that cannot be written ----

// No caller got the mount, so its record stays an intent, and the next call
// mounts again.
TEST_F(MountsUnrecordedTest, OneThatIsNotRecordedAsMadeIsMadeAnew) {
  const std::vector<BindMountRequest> sets[] = {
      {Spec("d", "data")}, {Tmpfs("d")}, {Spec("d", "data"), Tmpfs("t")}};
  for (const auto& set : sets) {
    {
      const FailingWrites failing(database(), "UPDATE", "mounts");
      EXPECT_NE(Outcome(mounts().Bind(set)), "Ok");
    }
    EXPECT_EQ(StateOf(), MountRecordState::kAttaching);
    const std::uint64_t left = executor().MountIdOf("web/task/d");
    EXPECT_NE(left, 0U);
    ASSERT_EQ(MessageOf(mounts().Bind(set)), "Ok");
    EXPECT_NE(executor().MountIdOf("web/task/d"), left);
    EXPECT_EQ(StateOf(), MountRecordState::kAttached);
    ASSERT_EQ(MessageOf(mounts().UnmountAll("web")), "Ok");
    EXPECT_EQ(AllThere(), nothing_);
  }
}

// Without the intent nobody would know of the anchor.
TEST_F(MountsUnrecordedTest, AnIntentWhoseAnchorCannotBeDoubtedStays) {
  Leave(MountRecordState::kAttaching, 0);
  {
    const FailingWrites failing(database(), "INSERT", "anchors");
    EXPECT_NE(Outcome(Unmount()), "Ok");
  }
  EXPECT_EQ(StateOf(), MountRecordState::kAttaching);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(AllThere(), nothing_);
}

TEST_F(MountsUnrecordedTest, AnAnchorThatCannotBeRecordedLeavesTheIntent) {
  {
    const FailingWrites failing(database(), "INSERT", "anchors");
    EXPECT_NE(Outcome(Bind()), "Ok");
  }
  EXPECT_EQ(StateOf(), MountRecordState::kAttaching);
  EXPECT_EQ(Existing(), mounted_);
  ASSERT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(AllThere(), nothing_);
}

TEST_F(MountsUnrecordedTest, ADetachThatIsNotRecordedIsNotBegun) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  {
    const FailingWrites failing(database(), "UPDATE", "mounts");
    EXPECT_NE(Outcome(Unmount()), "Ok");
  }
  EXPECT_EQ(Existing(), mounted_);
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  {
    const FailingWrites failing(database(), "DELETE", "mounts");
    EXPECT_NE(Outcome(Unmount()), "Ok");
  }
  EXPECT_EQ(StateOf(), MountRecordState::kDetaching);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(AllThere(), nothing_);
}

TEST_F(MountsUnrecordedTest, AnAnchorThatIsNotForgottenIsReleasedAgain) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  {
    const FailingWrites failing(database(), "DELETE", "anchors");
    EXPECT_EQ(MessageOf(Unmount()), "Ok");
    EXPECT_TRUE(mounts().HasLeftAnchors());
    mounts().ReleaseLeftAnchors();
    EXPECT_TRUE(mounts().HasLeftAnchors());
  }
  EXPECT_EQ(boot().anchors.ListAnchors()->size(), 1U);
  mounts().ReleaseLeftAnchors();
  EXPECT_FALSE(mounts().HasLeftAnchors());
  EXPECT_TRUE(boot().anchors.ListAnchors()->empty());
}

TEST_F(MountsUnrecordedTest, ALostMountThatIsNotRecordedIsLostLater) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  const MountRecord seen = *RecordOf();
  executor().LoseMount("web/task/d");
  {
    const FailingWrites failing(database(), "UPDATE", "mounts");
    EXPECT_NE(Outcome(mounts().LookLost(seen)), "Ok");
  }
  executor().FailNext("InspectTarget", Code::kUnavailable);
  EXPECT_EQ(Outcome(mounts().LookLost(seen)), "Unavailable");
  EXPECT_EQ(mounts().LookLost(seen).value(), "no mount is there");
}

// ---- Records that cannot be read ----

TEST_F(MountsUnrecordedTest, AStoreThatCannotBeReadKeepsAllAsItIs) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  const MountRecord seen = *RecordOf();
  const std::size_t plans = executor().plans().size();
  {
    const LockedTable locked(database(), "mounts");
    EXPECT_NE(Outcome(Bind()), "Ok");
    EXPECT_NE(Outcome(Replace(Spec("d", "logs"))), "Ok");
    EXPECT_NE(Outcome(mounts().Repair(Spec("d", "data"))), "Ok");
    EXPECT_NE(Outcome(Unmount()), "Ok");
    EXPECT_NE(Outcome(mounts().UnmountAll("web")), "Ok");
    EXPECT_NE(Outcome(mounts().Of("web")), "Ok");
    EXPECT_NE(Outcome(mounts().LookLost(seen)), "Ok");
    EXPECT_NE(Outcome(mounts().Recover()), "Ok");
  }
  EXPECT_EQ(executor().plans().size(), plans);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(AllThere(), nothing_);
}

TEST_F(MountsUnrecordedTest, AnchorsThatCannotBeReadAreLookedAtLater) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  {
    const LockedTable locked(database(), "anchors");
    EXPECT_EQ(MessageOf(Unmount()), "Ok");
    EXPECT_TRUE(mounts().HasLeftAnchors());
    mounts().ReleaseLeftAnchors();
    EXPECT_TRUE(mounts().HasLeftAnchors());
  }
  EXPECT_EQ(AllThere(), nothing_);
}

TEST_F(MountsUnrecordedTest, InboxesOfAStoreThatCannotBeReadAreNotMade) {
  const std::size_t plans = executor().plans().size();
  {
    const LockedTable locked(database(), "inboxes");
    EXPECT_NE(Outcome(mounts().PrepareInbox({"web", "task"})), "Ok");
    EXPECT_NE(Outcome(mounts().RecoverInboxes("web")), "Ok");
  }
  {
    const FailingWrites failing(database(), "INSERT", "inboxes");
    EXPECT_NE(Outcome(mounts().PrepareInbox({"web", "task"})), "Ok");
  }
  EXPECT_EQ(executor().plans().size(), plans);
  executor().FailNext("PrepareInbox", Code::kUnavailable);
  EXPECT_EQ(Outcome(mounts().PrepareInbox({"web", "task"})), "Unavailable");
  // The inbox is recorded, and goes with the same call or its removal.
  EXPECT_EQ(boot().inboxes.InboxesOf("web")->size(), 1U);
  executor().FailNext("PrepareInbox", Code::kUnavailable);
  EXPECT_EQ(Outcome(mounts().RecoverInboxes("web")), "Unavailable");
  EXPECT_EQ(MessageOf(mounts().RemoveInbox({"web", "task"})), "Ok");
  EXPECT_TRUE(boot().inboxes.InboxesOf("web")->empty());
}

// ---- Sources without an anchor ----

TEST_F(MountsUnrecordedTest, AVolumeReplacesAVolumeWithoutAnAnchor) {
  ASSERT_EQ(MessageOf(Bind(Published("d"))), "Ok");
  const std::uint64_t before = executor().MountIdOf("web/task/d");
  const BindMountRequest other = Published("d", 2);
  executor().FailNext("Attach", Code::kInternal);
  EXPECT_EQ(Outcome(Replace(other)), "Internal");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(RecordOf()->wish.source, "alias 1");
  ASSERT_EQ(MessageOf(Replace(other)), "Ok");
  EXPECT_NE(executor().MountIdOf("web/task/d"), before);
  EXPECT_EQ(RecordOf()->wish.source, "alias 2");
  EXPECT_TRUE(boot().anchors.ListAnchors()->empty());
  // The volume replaces a source with an anchor, and then one without.
  ASSERT_EQ(MessageOf(Replace(Spec("d", "data"))), "Ok");
  EXPECT_EQ(boot().anchors.ListAnchors()->size(), 1U);
  ASSERT_EQ(MessageOf(Replace(other)), "Ok");
  EXPECT_TRUE(boot().anchors.ListAnchors()->empty());
  EXPECT_EQ(executor().AnchorOf("data"), 0U);
}

TEST_F(MountsUnrecordedTest, AnothersMountStaysWhereATmpfsWasToBe) {
  executor().ReplaceMount("web/task/d");
  const std::uint64_t there = executor().MountIdOf("web/task/d");
  EXPECT_EQ(Outcome(Bind(Tmpfs("d"))), "AlreadyExists");
  EXPECT_EQ(executor().MountIdOf("web/task/d"), there);
  EXPECT_FALSE(RecordOf().has_value());
}

TEST_F(MountsUnrecordedTest, ATreeIsOpenedWithOrWithoutAnAnchor) {
  const auto open = [&](const BindMountRequest& spec) {
    return Outcome(mounts().OpenTree(spec));
  };
  EXPECT_EQ(open(Published("d")), "Ok");
  EXPECT_EQ(executor().script().Count("ReleaseAnchor"), 0U);
  // An anchor that an executor made without being able to say so goes with the
  // call.
  for (const auto when : {FailWhen::kBefore, FailWhen::kAfter}) {
    executor().FailNext("OpenTree", Code::kUnavailable, when);
    EXPECT_EQ(open(Spec("d", "data")), "Unavailable");
    EXPECT_TRUE(boot().anchors.ListAnchors()->empty());
  }
  EXPECT_EQ(executor().script().Count("ReleaseAnchor data"), 2U);
  // A user's anchor stays, and is still recorded.
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_EQ(open(Spec("d", "data")), "Ok");
  EXPECT_EQ(boot().anchors.ListAnchors()->at(kData),
            executor().AnchorOf("data"));
  {
    const FailingWrites failing(database(), "INSERT", "anchors");
    EXPECT_NE(open(Spec("d", "logs")), "Ok");
  }
  {
    const LockedTable locked(database(), "anchors");
    EXPECT_NE(open(Spec("d", "data")), "Ok");
  }
  EXPECT_EQ(executor().script().Count("OpenTree"), 4U);
}

// ---- Replacements that are interrupted ----

TEST_F(MountsUnrecordedTest, AReplacementCutOffHalfWayStaysOne) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  // The new mount is beneath the old one.
  executor().StackMount("web/task/d");
  executor().FailNext("Attach", Code::kUnavailable);
  EXPECT_EQ(Outcome(Replace(Spec("d", "logs"))), "Unavailable");
  EXPECT_EQ(StateOf(), MountRecordState::kReplacing);
  ASSERT_EQ(MessageOf(Replace(Spec("d", "logs"))), "Ok");
  EXPECT_EQ(RecordOf()->wish.source, "logs");
}

TEST_F(MountsUnrecordedTest, AReplacementThatIsNotRecordedIsFinishedAgain) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  {
    const FailingWrites failing(database(), "INSERT", "mounts");
    EXPECT_NE(Outcome(Replace(Spec("d", "logs"))), "Ok");
  }
  EXPECT_EQ(StateOf(), MountRecordState::kReplacing);
  ASSERT_EQ(MessageOf(Replace(Spec("d", "logs"))), "Ok");
  EXPECT_EQ(RecordOf()->mount_id, executor().MountIdOf("web/task/d"));
  EXPECT_EQ(RecordOf()->wish.source, "logs");
  ASSERT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(AllThere(), nothing_);
}

TEST_F(MountsUnrecordedTest, BusyIsRecordedAsTheMountIs) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  executor().SetBusy("web/task/d");
  executor().FailNext("InspectTarget", Code::kUnavailable);
  EXPECT_EQ(Outcome(Unmount()), "Busy");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(RecordOf()->mount_id, executor().MountIdOf("web/task/d"));
}

// Another mount is there, so its peer groups must not get into the record.
TEST_F(MountsUnrecordedTest, BusyWhereAnotherMountIsKeepsTheRecordAsItWas) {
  BindMountRequest spec = Spec("d", "data");
  spec.wish.propagation = exec::Propagation::kHostToTask;
  ASSERT_EQ(MessageOf(Bind(spec)), "Ok");
  const MountRecord before = *RecordOf();
  ASSERT_NE(before.master, 0U);
  executor().ReplaceMount("web/task/d");
  executor().FailNext("Detach", Code::kBusy);
  EXPECT_EQ(Outcome(Unmount()), "Busy");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(RecordOf()->master, before.master);
  EXPECT_EQ(RecordOf()->mount_id, before.mount_id);
}

TEST_F(MountsUnrecordedTest, AContainersMountThatCannotBeLookedAtStays) {
  BindMountRequest spec = Spec("d", "data");
  spec.wish.target_kind = exec::TargetKind::kContainer;
  spec.wish.place = "4026532000";
  ASSERT_EQ(MessageOf(Bind(spec)), "Ok");
  const MountRecord before = *RecordOf();
  executor().FailNext("InspectTarget", Code::kUnavailable);
  EXPECT_EQ(Outcome(Bind(spec)), "Unavailable");
  EXPECT_EQ(RecordOf()->mount_id, before.mount_id);
  EXPECT_EQ(executor().script().Count("Attach"), 1U);
}

// mountd does not undo the mount that another program has put on top.
TEST_F(MountsUnrecordedTest, ARepairWhereAnotherMountIsIsRefused) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  const MountRecord before = *RecordOf();
  executor().ReplaceMount("web/task/d");
  EXPECT_EQ(mounts().LookLost(before).value(), "another mount is there");
  const std::uint64_t there = executor().MountIdOf("web/task/d");
  EXPECT_EQ(Outcome(mounts().Repair(Spec("d", "data"))), "FailedPrecondition");
  EXPECT_EQ(executor().MountIdOf("web/task/d"), there);
  executor().FailNext("InspectTarget", Code::kUnavailable);
  EXPECT_EQ(Outcome(mounts().Repair(Spec("d", "data"))), "Unavailable");
}

// ---- Mounts that were found ----

TEST_F(MountsUnrecordedTest, WhatIsOtherwiseThanAskedStaysAsItWasFound) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  const std::uint64_t there = executor().MountIdOf("web/task/d");
  FindAll();
  const auto refused = Bind(Spec("d", "logs"));
  EXPECT_EQ(Outcome(refused), "AlreadyExists");
  EXPECT_NE(MessageOf(refused).find("only unmount or replace is possible"),
            std::string::npos);
  executor().FailNext("Attach", Code::kUnavailable);
  EXPECT_EQ(Outcome(Bind()), "Unavailable");
  {
    const FailingWrites failing(database(), "INSERT", "mounts");
    EXPECT_NE(Outcome(Bind()), "Ok");
  }
  EXPECT_EQ(StateOf(), MountRecordState::kFound);
  EXPECT_EQ(executor().MountIdOf("web/task/d"), there);
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_EQ(executor().MountIdOf("web/task/d"), there);
}

TEST_F(MountsUnrecordedTest, AFoundMountIsReplaced) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  const std::uint64_t there = executor().MountIdOf("web/task/d");
  FindAll();
  const auto replaced = Replace(Spec("d", "logs"));
  ASSERT_EQ(MessageOf(replaced), "Ok");
  EXPECT_EQ(replaced->old_mount_id, there);
  EXPECT_EQ(RecordOf()->wish.source, "logs");
  ASSERT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(AllThere(), nothing_) << "whichever anchor it had";
}

TEST_F(MountsUnrecordedTest, AFoundVolumeIsTakenOverAndATmpfsIsNot) {
  const BindMountRequest volume = Published("v");
  ASSERT_EQ(MessageOf(mounts().Bind({volume, Tmpfs("t")})), "Ok");
  const std::uint64_t there = executor().MountIdOf("web/task/v");
  FindAll();
  ASSERT_EQ(MessageOf(Bind(volume)), "Ok");
  EXPECT_EQ(RecordOf("v")->mount_id, there);
  EXPECT_EQ(StateOf("v"), MountRecordState::kAttached);
  // mountd does not know what a found tmpfs contains.
  EXPECT_EQ(Outcome(Bind(Tmpfs("t"))), "AlreadyExists");
  ASSERT_EQ(MessageOf(Unmount("t")), "Ok");
  ASSERT_EQ(MessageOf(Bind(Tmpfs("t"))), "Ok");
}

// Any anchor may belong to the source of the found mount.
TEST_F(MountsUnrecordedTest, AsLongAsOneIsOfNoKnownSourceNoAnchorGoes) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  FindAll();
  ASSERT_EQ(MessageOf(Bind(Spec("e", "logs"))), "Ok");
  ASSERT_EQ(MessageOf(Unmount("e")), "Ok");
  mounts().ReleaseLeftAnchors();
  EXPECT_TRUE(mounts().HasLeftAnchors());
  EXPECT_NE(executor().AnchorOf("logs"), 0U);
  {
    const LockedTable locked(database(), "mounts");
    mounts().ReleaseLeftAnchors();
    EXPECT_TRUE(mounts().HasLeftAnchors());
  }
  ASSERT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(AllThere(), nothing_);
  EXPECT_FALSE(mounts().HasLeftAnchors());
}

}  // namespace
}  // namespace mountd
