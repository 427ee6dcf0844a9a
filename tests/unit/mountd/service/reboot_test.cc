// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Each kind of record in another boot: with another boot id, an empty boot.db,
// and nothing mounted.
#include <gtest/gtest.h>

#include "mountd/service/services.h"
#include "tests/support/matchers.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

using Texts = std::vector<std::string>;

class RebootTest : public CoreFixture {
 protected:
  void Prepare(const std::string& allocation) {
    ASSERT_THAT(services().allocations.PrepareAllocation(
                    agent_, NameOf(allocation), "s"),
                IsOk());
  }
  void Mount() {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "task";
    spec.name = "m";
    spec.wish.source = "data";
    ASSERT_THAT(services().mounts.BindMount(agent_, spec), IsOk());
  }
  Result<csi::PublishedVolume> Publish() {
    csi::PublishSpec spec;
    spec.allocation = "web";
    spec.alias = "v";
    spec.plugin = "nfs";
    spec.volume_id = "v1";
    return services().volumes.PublishVolume(agent_, spec, UniqueFd());
  }
  void Reboot() {
    core_.Restart(/*same_boot=*/false);
    ASSERT_THAT(core_.Recover(), IsOk());
  }
  // Returns the pending tear-downs, such as "release web".
  Texts Owed() {
    Texts all;
    const auto owed = services().node.ListOwed(agent_);
    for (const OwedRecord& one : *owed) {
      all.push_back(std::string(OwedKindName(one.kind)) + " " + one.object);
    }
    return all;
  }
  void RetryAll() {
    const auto owed = services().node.ListOwed(agent_);
    for (const OwedRecord& one : *owed) {
      EXPECT_THAT(services().node.RetryOwed(one), IsOk());
    }
  }
};

// Nothing can be found again where the base is not mounted.
TEST_F(RebootTest, WithoutTheBaseNothingIsRecovered) {
  Prepare("web");
  core_.Restart(/*same_boot=*/false);
  core_.executor->FailNext("PrepareBase", Code::kUnavailable);
  EXPECT_THAT(core_.Recover(), IsErr(Code::kUnavailable));
  EXPECT_EQ(core_.executor->script().Count(""),
            core_.executor->script().Count("PrepareBase"));
  EXPECT_THAT(core_.Recover(), IsOk());
  EXPECT_EQ(core_.executor->Existing(), Texts{"allocation web"});
}

TEST_F(RebootTest, AllocationsStayAndTheirDirectoriesAreMadeAnew) {
  Prepare("web");
  ASSERT_THAT(services().allocations.PrepareAllocation(
                  agent_, NameOf("web"), "", 0, /*group=*/100'000),
              IsOk());
  Mount();
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  Reboot();
  EXPECT_EQ(executor().Existing(), Texts{"allocation web"});
  const auto status =
      services().allocations.GetAllocation(agent_, NameOf("web"));
  ASSERT_THAT(status, IsOk());
  EXPECT_TRUE(status->mounts.empty());
  EXPECT_TRUE(status->networks.empty());
  EXPECT_EQ(status->record.group, 0U);
  Mount();
  EXPECT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  EXPECT_THAT(services().allocations.ReleaseAllocation(agent_, NameOf("web")),
              IsOk());
}

TEST_F(RebootTest, OwedTearDownsOfMountsAndNetworksGoWithTheirBoot) {
  Prepare("web");
  Mount();
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  executor().FailNext("Detach", Code::kUnavailable);
  EXPECT_FALSE(
      services()
          .mounts.Unmount(agent_, NameOf("web"), NameOf("task"), NameOf("m"))
          .has_value());
  executor().FailNext("DeleteNetwork", Code::kUnavailable);
  EXPECT_FALSE(
      services().networks.TeardownNetwork(agent_, NameOf("web")).has_value());
  ASSERT_EQ(Owed(), (Texts{"unmount web/task/m", "teardown-network web/eth0"}));
  core_.Restart();
  ASSERT_EQ(Owed().size(), 2U);
  Reboot();
  EXPECT_EQ(Owed(), Texts{});
}

TEST_F(RebootTest, AReleaseThatWasUnderWayIsFinished) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  ASSERT_THAT(Publish(), IsOk());
  Mount();
  client().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal);
  EXPECT_FALSE(services()
                   .allocations.ReleaseAllocation(agent_, NameOf("web"))
                   .has_value());
  ASSERT_EQ(Owed(), Texts{"release web"});
  Reboot();
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  EXPECT_EQ(Owed(), (Texts{"release web", "unpublish web/v"}));
  RetryAll();
  EXPECT_EQ(Owed(), Texts{});
  const auto receipt = services().allocations.GetReceipt(agent_, NameOf("web"));
  ASSERT_THAT(receipt, IsOk());
  ASSERT_EQ(receipt->volumes.size(), 1U);
  EXPECT_TRUE(receipt->volumes[0].unstaged);
  // mountd has called the plugin's unpublish, although the mounts had gone.
  EXPECT_GE(client().script().Count("NodeUnpublishVolume"), 1U);
}

// The release was interrupted before its tear-down became pending.
TEST_F(RebootTest, AReleaseThatWasCutOffIsOwed) {
  Prepare("web");
  ASSERT_THAT(core_.state->allocations.SetAllocationState(
                  "web", AllocationState::kReleasing),
              IsOk());
  Reboot();
  EXPECT_EQ(Owed(), Texts{"release web"});
  RetryAll();
  EXPECT_THAT(services().allocations.GetReceipt(agent_, NameOf("web")), IsOk());
}

TEST_F(RebootTest, WhatAPluginHasToBeToldIsStillOwed) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  ASSERT_THAT(Publish(), IsOk());
  client().SetReady("nfs", false);
  ASSERT_TRUE(core_.events.Await("nfs unhealthy 1"));
  ASSERT_THAT(services().allocations.ReleaseAllocation(agent_, NameOf("web")),
              IsOk());
  ASSERT_EQ(Owed(), Texts{"unstage nfs/v1"});
  Reboot();
  EXPECT_EQ(Owed(), Texts{"unstage nfs/v1"});
  EXPECT_TRUE(services()
                  .allocations.GetReceipt(agent_, NameOf("web"))
                  ->volumes.at(0)
                  .owed);
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  RetryAll();
  EXPECT_EQ(Owed(), Texts{});
  EXPECT_FALSE(services()
                   .allocations.GetReceipt(agent_, NameOf("web"))
                   ->volumes.at(0)
                   .owed);
}

TEST_F(RebootTest, AStagedVolumeIsUncertainUntilItIsPublishedAgain) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  ASSERT_THAT(Publish(), IsOk());
  Reboot();
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  EXPECT_EQ(core_.state->volumes.ListVolumes()->at(0).state,
            VolumeState::kUncertain);
  EXPECT_EQ(core_.state->volumes.GetPublication("web", "v")->value().state,
            PublicationState::kUncertain);
  ASSERT_THAT(Publish(), IsOk());
  EXPECT_EQ(core_.state->volumes.ListVolumes()->at(0).state,
            VolumeState::kStaged);
}

// The volume is not published again, but it is not wanted either, so the
// plugin's calls are still made.
TEST_F(RebootTest, AnUncertainVolumeGoesWithItsAllocation) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  ASSERT_THAT(Publish(), IsOk());
  Reboot();
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  WorkerPool pool(4);
  Strands strands(pool);
  const auto entries =
      services().reconciler.Reconcile(agent_, {"s", 1, {}, false}, strands);
  ASSERT_THAT(entries, IsOk());
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ(entries->at(0).outcome, ReconcileOutcome::kReleased);
  EXPECT_EQ(client().script().Count("NodeUnstageVolume"), 1U);
  EXPECT_TRUE(core_.state->volumes.ListVolumes()->empty());
  EXPECT_EQ(executor().Existing(), Texts{"plugin nfs"});
}

TEST_F(RebootTest, PluginsAndReceiptsStay) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  ASSERT_THAT(services().allocations.ReleaseAllocation(agent_, NameOf("web")),
              IsOk());
  const auto receipt = services().allocations.GetReceipt(agent_, NameOf("web"));
  Reboot();
  EXPECT_TRUE(core_.events.Await("nfs healthy 1"));
  EXPECT_EQ(services().allocations.GetReceipt(agent_, NameOf("web"))->serial,
            receipt->serial);
}

TEST_F(RebootTest, AddressesOfTheOldBootAreFreeAgain) {
  Prepare("web");
  const auto free = [&] {
    return services().capabilities.GetAddressUsage().at("default").free;
  };
  const std::uint32_t all = free();
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  executor().KeepLinks();
  ASSERT_THAT(services().networks.TeardownNetwork(agent_, NameOf("web")),
              IsOk());
  ASSERT_FALSE(core_.boot->networks.ListQuarantine()->empty());
  Reboot();
  EXPECT_EQ(free(), all);
}

}  // namespace
}  // namespace mountd
