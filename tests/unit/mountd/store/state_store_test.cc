// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/state_store.h"

#include <gtest/gtest.h>

#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd::store {
namespace {

const VolumeKey kKey = VolumeKey::Derive("nfs", "v1");

AllocationRecord Allocation(const std::string& id, std::uint32_t uid = 7) {
  return {id, uid, 8, "scope", AllocationState::kPrepared};
}

VolumeRecord Volume() {
  return {kKey,
          "nfs",
          "v1",
          VolumeState::kStaging,
          5,
          "ext4",
          "digest",
          {{"a", "1"}, {"b", "\"quoted\" \xc3\xa9"}},
          {{"c", ""}},
          7,
          false,
          "",
          0};
}

PublicationRecord Publication(const std::string& allocation,
                              const std::string& alias = "alias") {
  return {kKey, allocation, alias, true, PublicationState::kPublishing, 0};
}

class StateStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Open();
    ASSERT_EQ(Outcome(store_->plugins.PutPlugin({"nfs", "node", 7, "", ""})),
              "Ok");
  }
  void Open(const std::string& boot = "boot 1") {
    store_.reset();
    auto opened = StateStore::Open(directory_.File("state.db"), boot);
    ASSERT_EQ(MessageOf(opened), "Ok");
    store_ = std::move(*opened);
  }
  void Add(const std::string& allocation, std::uint32_t uid = 7) {
    ASSERT_EQ(MessageOf(store_->allocations.AddAllocation(
                  Allocation(allocation, uid))),
              "Ok");
  }
  void AddPublished(const std::string& allocation) {
    Add(allocation);
    ASSERT_EQ(MessageOf(store_->volumes.AddPublication(
                  Volume(), Publication(allocation))),
              "Ok");
    PublicationRecord published = Publication(allocation);
    published.state = PublicationState::kPublished;
    published.mount_id = UINT64_MAX - 1;
    ASSERT_EQ(MessageOf(store_->volumes.SetPublicationState(published)), "Ok");
    ASSERT_EQ(
        MessageOf(store_->volumes.SetVolumeState(kKey, VolumeState::kStaged)),
        "Ok");
  }
  PublicationRecord Of(const std::string& allocation) {
    return store_->volumes.GetPublication(allocation, "alias")->value();
  }

  TempDirectory directory_;
  std::unique_ptr<StateStore> store_;
};

TEST_F(StateStoreTest, AllocationsAreKept) {
  Add("web");
  Add("db", 9);
  Open();
  const AllocationRecord web =
      store_->allocations.GetAllocation("web")->value();
  EXPECT_EQ(web.id, "web");
  EXPECT_EQ(web.uid, 7U);
  EXPECT_EQ(web.gid, 8U);
  EXPECT_EQ(web.scope, "scope");
  EXPECT_EQ(web.state, AllocationState::kPrepared);
  EXPECT_FALSE(store_->allocations.GetAllocation("none")->has_value());
  const auto all = store_->allocations.ListAllocations();
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->at(0).id, "db");
  EXPECT_EQ(*store_->allocations.CountAllocations(7), 1U);
  EXPECT_EQ(*store_->allocations.CountAllocations(1), 0U);
}

TEST_F(StateStoreTest, AnEpochOnlyGrows) {
  EXPECT_EQ(*store_->allocations.GetEpoch(7, "a"), std::nullopt);
  EXPECT_EQ(*store_->allocations.RaiseEpoch(7, "a", 5), 5U);
  EXPECT_EQ(*store_->allocations.RaiseEpoch(7, "a", 4), 5U);
  EXPECT_EQ(*store_->allocations.RaiseEpoch(7, "a", UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(*store_->allocations.RaiseEpoch(7, "", 0), 0U);
  Open();
  EXPECT_EQ(*store_->allocations.GetEpoch(7, "a"), UINT64_MAX);
  EXPECT_EQ(*store_->allocations.GetEpoch(7, ""), 0U);
  EXPECT_EQ(*store_->allocations.GetEpoch(8, "a"), std::nullopt);
}

TEST_F(StateStoreTest, AllocationsAreFoundByTheirScope) {
  Add("web");
  Add("db", 9);
  ASSERT_EQ(store_->allocations.AllocationsOf(7, "scope")->size(), 1U);
  EXPECT_EQ(store_->allocations.AllocationsOf(7, "scope")->at(0).id, "web");
  EXPECT_TRUE(store_->allocations.AllocationsOf(7, "")->empty());
  EXPECT_TRUE(store_->allocations.AllocationsOf(8, "scope")->empty());
}

TEST_F(StateStoreTest, AnAllocationIsAddedOnce) {
  Add("web");
  EXPECT_EQ(Outcome(store_->allocations.AddAllocation(Allocation("web", 9))),
            "AlreadyExists");
  EXPECT_EQ(store_->allocations.GetAllocation("web")->value().uid, 7U);
}

TEST_F(StateStoreTest, AnAllocationsStateChanges) {
  Add("web");
  Add("db");
  ASSERT_EQ(Outcome(store_->allocations.SetAllocationState(
                "web", AllocationState::kReleasing)),
            "Ok");
  EXPECT_EQ(store_->allocations.GetAllocation("web")->value().state,
            AllocationState::kReleasing);
  EXPECT_EQ(store_->allocations.GetAllocation("db")->value().state,
            AllocationState::kPrepared);
}

TEST_F(StateStoreTest, CgroupsAreOfOneBoot) {
  Add("web");
  EXPECT_EQ(store_->allocations.GetAllocation("web")->value().cgroup, 0U);
  ASSERT_EQ(
      Outcome(store_->allocations.SetAllocationCgroup("web", UINT64_MAX - 1)),
      "Ok");
  Open();
  EXPECT_EQ(store_->allocations.GetAllocation("web")->value().cgroup,
            UINT64_MAX - 1);
  EXPECT_EQ(store_->allocations.ListAllocations()->at(0).cgroup,
            UINT64_MAX - 1);
  Open("boot 2");
  EXPECT_EQ(store_->allocations.GetAllocation("web")->value().cgroup, 0U);
}

TEST_F(StateStoreTest, FinishingLeavesAReceiptAndNothingOwed) {
  Add("web");
  ASSERT_EQ(Outcome(store_->owed.AddOwed(
                {0, OwedKind::kRelease, "web", 7, "reason", 1, 3})),
            "Ok");
  const auto receipt =
      store_->allocations.FinishAllocation({"web", 7, 0, 123, {}, "tp", "r1"});
  ASSERT_EQ(MessageOf(receipt), "Ok");
  EXPECT_NE(receipt->serial, 0U);
  Open();
  EXPECT_FALSE(store_->allocations.GetAllocation("web")->has_value());
  EXPECT_TRUE(store_->owed.ListOwed()->empty());
  const ReceiptRecord kept = store_->allocations.GetReceipt("web")->value();
  EXPECT_EQ(kept.serial, receipt->serial);
  EXPECT_EQ(kept.uid, 7U);
  EXPECT_EQ(kept.released_at_us, 123U);
  EXPECT_EQ(kept.traceparent, "tp");
  EXPECT_EQ(kept.request_id, "r1");
  EXPECT_TRUE(kept.volumes.empty());
  EXPECT_FALSE(store_->allocations.GetReceipt("db")->has_value());
}

TEST_F(StateStoreTest, SerialsOnlyGrow) {
  Add("web");
  const std::uint64_t first =
      store_->allocations.FinishAllocation({"web", 7, 0, 1, {}})->serial;
  Add("web");
  EXPECT_FALSE(store_->allocations.GetReceipt("web")->has_value());
  EXPECT_GT(store_->allocations.FinishAllocation({"web", 7, 0, 1, {}})->serial,
            first);
}

TEST_F(StateStoreTest, UncheckedCgroupsLastUntilTheReceiptOrTheBootEnds) {
  const auto put = [&](const std::string& allocation, std::uint64_t cgroup) {
    ASSERT_EQ(
        MessageOf(store_->unchecked.PutUnchecked({0, allocation, 7, cgroup})),
        "Ok");
  };
  const auto serials = [&](const std::string& allocation) {
    std::vector<std::uint64_t> all;
    const auto records = store_->unchecked.UncheckedOf(allocation);
    for (const UncheckedRecord& one : *records) {
      all.push_back(one.serial);
    }
    return all;
  };
  Add("web");
  Add("db");
  put("web", 1);
  put("web", 2);
  put("nobody", 1);
  const UncheckedRecord first = store_->unchecked.UncheckedOf("web")->front();
  put("web", 1);
  EXPECT_EQ(serials("web"), (std::vector<std::uint64_t>{2, 4}));
  // Not the one that was put again meanwhile.
  ASSERT_EQ(MessageOf(store_->unchecked.RemoveUnchecked(first)), "Ok");
  EXPECT_EQ(serials("web").size(), 2U);
  ReceiptRecord receipt;
  receipt.allocation = "web";
  receipt.uid = 7;
  ASSERT_EQ(MessageOf(store_->allocations.FinishAllocation(receipt)), "Ok");
  EXPECT_EQ(serials("web").size(), 2U);
  EXPECT_TRUE(serials("nobody").empty());
  put("db", 3);
  Open();
  EXPECT_EQ(serials("web").size(), 2U);
  Open("boot 2");
  EXPECT_TRUE(serials("web").empty());
  EXPECT_TRUE(serials("db").empty());
}

TEST_F(StateStoreTest, AnothersReceiptKeepsItsName) {
  Add("web", 7);
  ASSERT_EQ(
      MessageOf(store_->allocations.FinishAllocation({"web", 7, 0, 1, {}})),
      "Ok");
  EXPECT_EQ(Outcome(store_->allocations.AddAllocation(Allocation("web", 9))),
            "AlreadyExists");
  EXPECT_EQ(store_->allocations.GetReceipt("web")->value().uid, 7U);
  EXPECT_EQ(MessageOf(store_->allocations.AddAllocation(Allocation("web", 7))),
            "Ok");
}

TEST_F(StateStoreTest, ARemovalThatWasCutOffHasNotHappened) {
  Add("web");
  ASSERT_EQ(Outcome(store_->plugins.BeginPluginRemoval("nfs")), "Ok");
  Open();
  EXPECT_EQ(
      MessageOf(store_->volumes.AddPublication(Volume(), Publication("web"))),
      "Ok");
}

TEST_F(StateStoreTest, AnAllocationWithPublicationsIsNotFinished) {
  AddPublished("web");
  EXPECT_NE(Outcome(store_->allocations.FinishAllocation({"web", 7, 0, 1, {}})),
            "Ok");
  EXPECT_TRUE(store_->allocations.GetAllocation("web")->has_value());
  EXPECT_FALSE(store_->allocations.GetReceipt("web")->has_value());
}

TEST_F(StateStoreTest, PluginsAreKept) {
  ASSERT_EQ(MessageOf(store_->allocations.AddAllocation(Allocation("web", 7))),
            "Ok");
  ASSERT_EQ(
      Outcome(store_->plugins.PutPlugin({"smb", "node", 7, "web", "/csi"})),
      "Ok");
  ASSERT_EQ(Outcome(store_->plugins.PutPlugin({"ebs", "monolith", 8, "", ""})),
            "Ok");
  Open();
  const auto all = store_->plugins.ListPlugins();
  ASSERT_EQ(all->size(), 3U);
  EXPECT_EQ(all->at(0).id, "ebs");
  EXPECT_EQ(all->at(1).id, "nfs");
  EXPECT_EQ(all->at(2).id, "smb");
  EXPECT_EQ(all->at(2).type, "node");
  EXPECT_EQ(all->at(2).uid, 7U);
  EXPECT_EQ(all->at(2).allocation, "web");
  EXPECT_EQ(all->at(2).mount_dir, "/csi");
  ASSERT_EQ(Outcome(store_->plugins.RemovePlugin("ebs")), "Ok");
  ASSERT_EQ(Outcome(store_->plugins.RemovePlugin("ebs")), "Ok");
  EXPECT_EQ(store_->plugins.ListPlugins()->size(), 2U);
}

TEST_F(StateStoreTest, AnInstancesAllocationIsPrepared) {
  const PluginRecord record{"smb", "node", 7, "web", "/csi"};
  EXPECT_EQ(Outcome(store_->plugins.PutPlugin(record)), "FailedPrecondition");
  ASSERT_EQ(MessageOf(store_->allocations.AddAllocation(Allocation("web", 7))),
            "Ok");
  ASSERT_EQ(Outcome(store_->allocations.SetAllocationState(
                "web", AllocationState::kReleasing)),
            "Ok");
  EXPECT_EQ(Outcome(store_->plugins.PutPlugin(record)), "FailedPrecondition");
  EXPECT_EQ(store_->plugins.ListPlugins()->size(), 1U);
}

TEST_F(StateStoreTest, VolumesOfOthersAreThoseOfMoreThanOneAllocation) {
  const auto of_others = [&] {
    return store_->plugins.HasVolumesOfOthers("nfs", "web").value();
  };
  EXPECT_FALSE(of_others());
  AddPublished("web");
  EXPECT_FALSE(of_others());
  EXPECT_TRUE(store_->plugins.HasVolumesOfOthers("nfs", "api").value());
  EXPECT_FALSE(store_->plugins.HasVolumesOfOthers("smb", "api").value());
}

TEST_F(StateStoreTest, InstancesOfAPluginAreKeptInTheirOrder) {
  for (const char* allocation : {"web", "api"}) {
    ASSERT_EQ(
        MessageOf(store_->allocations.AddAllocation(Allocation(allocation, 7))),
        "Ok");
  }
  ASSERT_EQ(Outcome(store_->plugins.RemovePlugin("nfs")), "Ok");
  PluginRecord first{"nfs", "node", 7, "web", "/csi"};
  first.stage_publish_base_dir = "/base";
  first.bare_directories = true;
  first.health_timeout_ms = 5;
  PluginRecord second = first;
  second.allocation = "api";
  const auto serial = store_->plugins.PutPlugin(first);
  ASSERT_EQ(MessageOf(serial), "Ok");
  ASSERT_EQ(MessageOf(store_->plugins.PutPlugin(second)), "Ok");
  EXPECT_EQ(*store_->plugins.PutPlugin(first), *serial);
  Open();
  auto all = store_->plugins.ListPlugins();
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->at(0).allocation, "web");
  EXPECT_EQ(all->at(0).serial, *serial);
  EXPECT_EQ(all->at(0).stage_publish_base_dir, "/base");
  EXPECT_TRUE(all->at(0).bare_directories);
  EXPECT_EQ(all->at(0).health_timeout_ms, 5U);
  EXPECT_EQ(all->at(1).allocation, "api");
  EXPECT_GT(all->at(1).serial, *serial);
  // A plugin without instances exists until it is removed.
  ASSERT_EQ(Outcome(store_->plugins.RemovePluginInstance(*serial)), "Ok");
  ASSERT_EQ(Outcome(store_->plugins.RemovePluginInstance(all->at(1).serial)),
            "Ok");
  all = store_->plugins.ListPlugins();
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->at(0).id, "nfs");
  EXPECT_EQ(all->at(0).uid, 7U);
  EXPECT_EQ(all->at(0).serial, 0U);
  EXPECT_TRUE(all->at(0).bare_directories);
  ASSERT_EQ(Outcome(store_->plugins.RemovePlugin("nfs")), "Ok");
  EXPECT_TRUE(store_->plugins.ListPlugins()->empty());
}

TEST_F(StateStoreTest, APluginThatIsGoneOrGoingGetsNoVolume) {
  Add("web");
  const auto add = [&] {
    return Outcome(
        store_->volumes.AddPublication(Volume(), Publication("web")));
  };
  ASSERT_EQ(MessageOf(store_->plugins.BeginPluginRemoval("nfs")), "Ok");
  EXPECT_EQ(add(), "NotFound");
  ASSERT_EQ(Outcome(store_->plugins.CancelPluginRemoval("nfs")), "Ok");
  EXPECT_EQ(add(), "Ok");
  EXPECT_EQ(Outcome(store_->plugins.BeginPluginRemoval("nfs")), "Busy");
  ASSERT_EQ(Outcome(store_->volumes.RemovePublication(Of("web"), true)), "Ok");
  ASSERT_EQ(Outcome(store_->plugins.RemovePlugin("nfs")), "Ok");
  EXPECT_EQ(add(), "NotFound");
  EXPECT_TRUE(store_->volumes.ListVolumes()->empty());
}

TEST_F(StateStoreTest, APublicationBringsItsVolume) {
  Add("web");
  ASSERT_EQ(
      MessageOf(store_->volumes.AddPublication(Volume(), Publication("web"))),
      "Ok");
  Open();
  const VolumeRecord volume = store_->volumes.GetVolume(kKey)->value();
  EXPECT_EQ(volume.key, kKey);
  EXPECT_EQ(volume.plugin, "nfs");
  EXPECT_EQ(volume.volume_id, "v1");
  EXPECT_EQ(volume.state, VolumeState::kStaging);
  EXPECT_EQ(volume.access_mode, 5);
  EXPECT_EQ(volume.fs_type, "ext4");
  EXPECT_EQ(volume.capability_digest, "digest");
  EXPECT_EQ(volume.uid, 7U);
  EXPECT_EQ(volume.publish_context, Volume().publish_context);
  EXPECT_EQ(volume.volume_context, Volume().volume_context);
  const PublicationRecord publication = Of("web");
  EXPECT_EQ(publication.key, kKey);
  EXPECT_EQ(publication.allocation, "web");
  EXPECT_EQ(publication.alias, "alias");
  EXPECT_TRUE(publication.read_only);
  EXPECT_EQ(publication.state, PublicationState::kPublishing);
  EXPECT_FALSE(store_->volumes.GetPublication("web", "other")->has_value());
  EXPECT_FALSE(
      store_->volumes.GetVolume(VolumeKey::Derive("nfs", "v2"))->has_value());
}

TEST_F(StateStoreTest, ASecondUserLeavesTheVolumeAsItIs) {
  AddPublished("web");
  Add("db");
  VolumeRecord other = Volume();
  other.state = VolumeState::kStaging;
  other.access_mode = 1;
  ASSERT_EQ(MessageOf(store_->volumes.AddPublication(other, Publication("db"))),
            "Ok");
  EXPECT_EQ(store_->volumes.GetVolume(kKey)->value().state,
            VolumeState::kStaged);
  EXPECT_EQ(store_->volumes.GetVolume(kKey)->value().access_mode, 5);
  EXPECT_EQ(store_->volumes.ListVolumes()->size(), 1U);
  EXPECT_EQ(store_->volumes.UsersOf(kKey)->size(), 2U);
  EXPECT_EQ(store_->volumes.PublicationsOf("db")->size(), 1U);
  EXPECT_EQ(store_->volumes.ListPublications()->size(), 2U);
}

TEST_F(StateStoreTest, APublicationIsAddedOnceAndAllOrNothing) {
  AddPublished("web");
  EXPECT_EQ(
      Outcome(store_->volumes.AddPublication(Volume(), Publication("web"))),
      "AlreadyExists");
  EXPECT_EQ(Outcome(store_->volumes.AddPublication(
                Volume(), Publication("web", "second"))),
            "AlreadyExists");
  // The allocation does not exist, so the volume is not added either.
  VolumeRecord volume = Volume();
  volume.volume_id = "v2";
  volume.key = VolumeKey::Derive("nfs", "v2");
  PublicationRecord publication = Publication("nowhere");
  publication.key = volume.key;
  EXPECT_NE(Outcome(store_->volumes.AddPublication(volume, publication)), "Ok");
  EXPECT_FALSE(store_->volumes.GetVolume(volume.key)->has_value());
}

TEST_F(StateStoreTest, StatesAndMountIdsAreKeptBitByBit) {
  AddPublished("web");
  Open();
  EXPECT_EQ(Of("web").state, PublicationState::kPublished);
  EXPECT_EQ(Of("web").mount_id, UINT64_MAX - 1);
  EXPECT_EQ(store_->volumes.GetVolume(kKey)->value().state,
            VolumeState::kStaged);
}

TEST_F(StateStoreTest, AnotherBootMakesVolumesUncertain) {
  AddPublished("web");
  Open("boot 2");
  EXPECT_EQ(Of("web").state, PublicationState::kUncertain);
  EXPECT_EQ(Of("web").mount_id, 0U);
  EXPECT_EQ(store_->volumes.GetVolume(kKey)->value().state,
            VolumeState::kUncertain);
  EXPECT_TRUE(store_->allocations.GetAllocation("web")->has_value());
  // Only the first open in another boot does so.
  ASSERT_EQ(Outcome(store_->volumes.SetVolumeState(kKey, VolumeState::kStaged)),
            "Ok");
  Open("boot 2");
  EXPECT_EQ(store_->volumes.GetVolume(kKey)->value().state,
            VolumeState::kStaged);
}

TEST_F(StateStoreTest, WhatWasBeingUnpublishedStillIsInAnotherBoot) {
  AddPublished("web");
  PublicationRecord unpublishing = Publication("web");
  unpublishing.state = PublicationState::kUnpublishing;
  ASSERT_EQ(Outcome(store_->volumes.SetPublicationState(unpublishing)), "Ok");
  Open("boot 2");
  EXPECT_EQ(Of("web").state, PublicationState::kUnpublishing);
}

TEST_F(StateStoreTest, RemovingAPublicationMayTakeTheVolume) {
  AddPublished("web");
  AddPublished("db");
  ASSERT_EQ(Outcome(store_->owed.AddOwed(
                {0, OwedKind::kUnpublish, "web/alias", 7, "reason", 1, 3})),
            "Ok");
  ASSERT_EQ(MessageOf(store_->volumes.RemovePublication(Of("web"), false)),
            "Ok");
  EXPECT_FALSE(store_->volumes.GetPublication("web", "alias")->has_value());
  EXPECT_TRUE(store_->owed.ListOwed()->empty());
  EXPECT_TRUE(store_->volumes.GetVolume(kKey)->has_value());
  ASSERT_EQ(MessageOf(store_->volumes.RemovePublication(Of("db"), true)), "Ok");
  EXPECT_FALSE(store_->volumes.GetVolume(kKey)->has_value());
}

TEST_F(StateStoreTest, TheReceiptTellsAllThatWasDetached) {
  AddPublished("web");
  AddPublished("db");
  ASSERT_EQ(MessageOf(store_->volumes.RemovePublication(Of("web"), false)),
            "Ok");
  ASSERT_EQ(MessageOf(store_->volumes.RemovePublication(Of("db"), true)), "Ok");
  const auto web = store_->allocations.FinishAllocation({"web", 7, 0, 1, {}});
  ASSERT_EQ(web->volumes.size(), 1U);
  EXPECT_EQ(web->volumes[0].plugin, "nfs");
  EXPECT_EQ(web->volumes[0].volume_id, "v1");
  EXPECT_FALSE(web->volumes[0].unstaged);
  ASSERT_EQ(
      MessageOf(store_->allocations.FinishAllocation({"db", 7, 0, 1, {}})),
      "Ok");
  Open();
  const ReceiptRecord db = store_->allocations.GetReceipt("db")->value();
  ASSERT_EQ(db.volumes.size(), 1U);
  EXPECT_TRUE(db.volumes[0].unstaged);
}

TEST_F(StateStoreTest, WhatNeverWasPublishedIsNotDetached) {
  Add("web");
  ASSERT_EQ(
      MessageOf(store_->volumes.AddPublication(Volume(), Publication("web"))),
      "Ok");
  ASSERT_EQ(MessageOf(store_->volumes.RemovePublication(Of("web"), true)),
            "Ok");
  EXPECT_TRUE(store_->allocations.FinishAllocation({"web", 7, 0, 1, {}})
                  ->volumes.empty());
}

TEST_F(StateStoreTest, OwedTearDownsCountTheirAttempts) {
  const OwedRecord owed{0, OwedKind::kRelease, "web", 7, "first", 1, 11};
  ASSERT_EQ(Outcome(store_->owed.AddOwed(owed)), "Ok");
  OwedRecord again = owed;
  again.reason = "second";
  again.since_us = 22;
  ASSERT_EQ(Outcome(store_->owed.AddOwed(again)), "Ok");
  OwedRecord other = owed;
  other.kind = OwedKind::kUnpublish;
  ASSERT_EQ(Outcome(store_->owed.AddOwed(other)), "Ok");
  Open();
  const auto all = store_->owed.ListOwed();
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->at(0).kind, OwedKind::kRelease);
  EXPECT_EQ(all->at(0).object, "web");
  EXPECT_EQ(all->at(0).uid, 7U);
  EXPECT_EQ(all->at(0).reason, "second");
  EXPECT_EQ(all->at(0).attempts, 2U);
  EXPECT_EQ(all->at(0).since_us, 11U);
  EXPECT_EQ(all->at(1).attempts, 1U);
  ASSERT_EQ(Outcome(store_->owed.RemoveOwed(OwedKind::kRelease, "web")), "Ok");
  EXPECT_EQ(store_->owed.ListOwed()->at(0).kind, OwedKind::kUnpublish);
}

}  // namespace
}  // namespace mountd::store
