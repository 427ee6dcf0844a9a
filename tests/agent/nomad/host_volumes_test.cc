// SPDX-License-Identifier: LGPL-2.1-or-later
// Host volumes of tasks of Nomad: their mounts in words, and at a mountd whose
// executor is a model.
#include "agent/nomad/plugin/host_volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "agent/nomad/plugin/mountd_allocations.h"
#include "tests/dbus/api_test.h"
#include "tests/support/matchers.h"

namespace mountd::nomad {
namespace {

using ::mountd::test::ApiTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

agent::HostVolumeGrant Grant(const std::string& name, const std::string& path,
                             bool writable) {
  agent::HostVolumeGrant grant;
  grant.source.name = name;
  grant.source.read_only_propagation = {"private"};
  if (writable) {
    grant.source.writable_propagation = {"private", "host-to-task"};
  }
  grant.path = path;
  return grant;
}

driver::Mount MountOf(const std::string& task_path,
                      const std::string& host_path) {
  driver::Mount mount;
  mount.task_path = task_path;
  mount.host_path = host_path;
  return mount;
}

driver::TaskConfig TaskWith(std::vector<driver::Mount> mounts) {
  driver::TaskConfig config;
  config.id = "a1/web/0";
  config.allocation = "cni-a1";
  config.name = "web";
  config.mounts = std::move(mounts);
  return config;
}

// "<index> <name> of <source>" of each mount.
std::vector<std::string> Words(const std::vector<HostVolumeMount>& mounts) {
  std::vector<std::string> words;
  for (const HostVolumeMount& mount : mounts) {
    words.push_back(std::to_string(mount.index) + " " + mount.spec.name +
                    " of " + mount.spec.source);
  }
  return words;
}

TEST(HostVolumeMounts, AreThoseWhosePathAGrantHas) {
  const auto config = TaskWith(
      {MountOf("/a", "/srv/data/../data/"), MountOf("/b", "/srv/data/below"),
       MountOf("/c", "/srv/database"), MountOf("/d", "/var/nomad/csi")});
  EXPECT_THAT(
      Words(HostVolumeMountsOf(config, {Grant("d", "/srv/data", true)})),
      ElementsAre("0 d of d"));
  EXPECT_THAT(HostVolumeMountsOf(config, {}), IsEmpty());
}

TEST(HostVolumeMounts, KeepTheWishesOfTheMount) {
  auto mount = MountOf("/a", "/srv/data");
  mount.read_only = true;
  mount.propagation = driver::MountPropagation::kHostToTask;
  const auto found =
      HostVolumeMountsOf(TaskWith({mount}), {Grant("d", "/srv/data", true)});
  ASSERT_EQ(found.size(), 1U);
  agent::BindMountSpec spec;
  spec.task = "web";
  spec.name = spec.source = "d";
  spec.source_type = agent::SourceType::kHostVolume;
  spec.read_only = true;
  spec.propagation = agent::Propagation::kHostToTask;
  spec.task_path = "/a";
  EXPECT_EQ(found[0].spec, spec);
}

// Nomad keeps volumes in a map, whose order changes with each call.
TEST(HostVolumeMounts, HaveTheSameNamesInEachOrder) {
  const auto granted = std::vector{Grant("d", "/srv/data", true)};
  EXPECT_THAT(Words(HostVolumeMountsOf(TaskWith({MountOf("/b", "/srv/data"),
                                                 MountOf("/a", "/srv/data")}),
                                       granted)),
              ElementsAre("1 d of d", "0 d.2 of d"));
  EXPECT_THAT(Words(HostVolumeMountsOf(TaskWith({MountOf("/a", "/srv/data"),
                                                 MountOf("/b", "/srv/data")}),
                                       granted)),
              ElementsAre("0 d of d", "1 d.2 of d"));
}

TEST(HostVolumeMounts, OfSeveralNamesIsTheOneThatIsMeant) {
  const std::vector<agent::HostVolumeGrant> granted = {
      Grant("reading", "/srv/data", false),
      Grant("writing", "/srv/data", true)};
  auto mount = MountOf("/a", "/srv/data");
  EXPECT_THAT(Words(HostVolumeMountsOf(TaskWith({mount}), granted)),
              ElementsAre("0 writing of writing"));
  mount.read_only = true;
  EXPECT_THAT(Words(HostVolumeMountsOf(TaskWith({mount}), granted)),
              ElementsAre("0 reading of reading"));
  mount.request_name = "writing";
  EXPECT_THAT(Words(HostVolumeMountsOf(TaskWith({mount}), granted)),
              ElementsAre("0 writing of writing"));
}

class HostVolumes : public ApiTest {
 protected:
  void SetUp() override {
    Start();
    ConnectAgain();
    client_ = Connect();
  }
  std::unique_ptr<agent::Client> Connect() {
    auto client = agent::Client::Connect({.address = server().address()});
    EXPECT_THAT(client, IsOk());
    return client ? std::make_unique<agent::Client>(std::move(*client))
                  : nullptr;
  }
  // The plugin has been killed.
  void ConnectAgain() {
    allocations_ = std::make_unique<MountdAllocations>(
        [this](std::chrono::milliseconds patience) {
          return agent::Client::Connect({.address = server().address(),
                                         .patience = patience,
                                         .join = false});
        },
        [this](const std::string&) -> Result<std::set<std::string>> {
          ++scans_;
          return running_;
        });
  }
  std::jthread Mounts(const std::string& allocation) {
    return std::jthread([this, allocation] {
      auto config = TaskWith({MountOf("/data", "/srv/data")});
      config.allocation = allocation;
      EXPECT_THAT(allocations_->MountHostVolumes(&config), IsOk());
    });
  }
  driver::TaskConfig Mounted(const std::string& task = "web") {
    auto config =
        TaskWith({MountOf("/data", "/srv/data"), MountOf("/own", "/home/own")});
    config.name = task;
    EXPECT_THAT(allocations_->MountHostVolumes(&config), IsOk());
    return config;
  }
  bool IsThere() { return client_->GetAllocation("cni-a1").has_value(); }

  bool IsUnderWay(const std::string& method) {
    const auto all = client_->ListOperations();
    return all && std::any_of(all->begin(), all->end(), [&](const auto& one) {
             return one.method == method;
           });
  }

  void SetUpNetwork() {
    ASSERT_THAT(allocations_->Prepare("cni-a1"), IsOk());
    agent::NetworkSpec network;
    network.network = "default";
    ASSERT_THAT(client_->SetupNetwork("cni-a1", network), IsOk());
  }

  std::set<std::string> running_;
  std::atomic<int> scans_{0};  // of the mounts of all processes
  std::unique_ptr<MountdAllocations> allocations_;
  std::unique_ptr<agent::Client> client_;
};

TEST_F(HostVolumes, AreInTheTasksInbox) {
  const auto config = Mounted();
  const auto allocation = client_->GetAllocation("cni-a1");
  ASSERT_THAT(allocation, IsOk());
  EXPECT_EQ(allocation->scope, "nomad");
  ASSERT_EQ(allocation->mounts.size(), 1U);
  EXPECT_EQ(config.mounts[0].host_path, allocation->mounts[0].config.host_path);
  EXPECT_THAT(config.mounts[0].host_path, StartsWith(allocation->host_path));
  EXPECT_TRUE(config.mounts[0].is_mountds);
  EXPECT_EQ(config.mounts[1].host_path, "/home/own");
  EXPECT_FALSE(config.mounts[1].is_mountds);
}

TEST_F(HostVolumes, AreTheSameAfterAKillOfThePlugin) {
  const auto first = Mounted();
  ConnectAgain();
  EXPECT_EQ(Mounted().mounts, first.mounts);
}

// The plugin was killed before StartTask made a record.
TEST_F(HostVolumes, OfAKilledStartGoAtTheNextOne) {
  Mounted("web");
  Mounted("log");
  ConnectAgain();
  allocations_->ReleaseAbandoned({{"cni-a1", "log"}});
  const auto left = client_->GetAllocation("cni-a1");
  ASSERT_THAT(left, IsOk());
  ASSERT_EQ(left->mounts.size(), 1U);
  EXPECT_EQ(left->mounts[0].task, "log");
  allocations_->ReleaseAbandoned({});
  EXPECT_FALSE(IsThere());
}

TEST_F(HostVolumes, OfARunningTaskOrANetworkAreNotAbandoned) {
  Mounted();
  running_ = {"web"};
  allocations_->ReleaseAbandoned({});
  EXPECT_TRUE(IsThere()) << "its record is in another directory";
  running_.clear();
  agent::NetworkSpec network;
  network.network = "default";
  ASSERT_THAT(client_->SetupNetwork("cni-a1", network), IsOk());
  allocations_->ReleaseAbandoned({});
  EXPECT_EQ(client_->GetAllocation("cni-a1")->mounts.size(), 1U);
}

TEST_F(HostVolumes, OfARecordOrANetworkNeedNoScanOfTheProcesses) {
  Mounted();
  scans_ = 0;
  allocations_->ReleaseAbandoned({{"cni-a1", "web"}});
  EXPECT_EQ(scans_, 0);
  agent::NetworkSpec network;
  network.network = "default";
  ASSERT_THAT(client_->SetupNetwork("cni-a1", network), IsOk());
  allocations_->ReleaseAbandoned({});
  EXPECT_EQ(scans_, 0);
  EXPECT_EQ(client_->GetAllocation("cni-a1")->mounts.size(), 1U);
}

TEST_F(HostVolumes, AfterTheEndOfTheSweepWaitForTheNextStart) {
  Mounted();
  allocations_->ReleaseAbandoned({}, LentClients::Clock::time_point::min());
  EXPECT_TRUE(IsThere());
  allocations_->ReleaseAbandoned({}, LentClients::Clock::time_point::max());
  EXPECT_FALSE(IsThere());
}

TEST_F(HostVolumes, OthersAllocationsAreNotAbandoned) {
  ASSERT_THAT(client_->PrepareAllocation("web", {.scope = "other"}), IsOk());
  allocations_->ReleaseAbandoned({});
  EXPECT_THAT(client_->GetAllocation("web"), IsOk());
}

TEST_F(HostVolumes, GoWithTheirTask) {
  Mounted("web");
  Mounted("log");
  EXPECT_THAT(allocations_->UnmountHostVolumes("cni-a1", "web"), IsOk());
  EXPECT_TRUE(IsThere());
  EXPECT_THAT(allocations_->UnmountHostVolumes("cni-a1", "log"), IsOk());
  EXPECT_FALSE(IsThere());
  EXPECT_THAT(allocations_->UnmountHostVolumes("cni-a1", "log"), IsOk());
}

TEST_F(HostVolumes, LeaveTheAllocationWithItsNetwork) {
  SetUpNetwork();
  Mounted();
  EXPECT_THAT(allocations_->UnmountHostVolumes("cni-a1", "web"), IsOk());
  EXPECT_TRUE(IsThere());
}

TEST_F(HostVolumes, ThatCannotBeMountedLeaveNothing) {
  auto config = TaskWith({MountOf("/data", "/srv/data")});
  config.name = "no/name";  // BindMounts refuses it
  EXPECT_THAT(allocations_->MountHostVolumes(&config),
              IsErr(Code::kInvalidArgument));
  EXPECT_FALSE(IsThere());
  EXPECT_EQ(config.mounts[0].host_path, "/srv/data");
}

TEST_F(HostVolumes, ThatCannotBeMountedLeaveTheNetworkOfTheOthers) {
  SetUpNetwork();
  auto config = TaskWith({MountOf("/data", "/srv/data")});
  config.name = "no/name";  // BindMounts refuses it
  EXPECT_THAT(allocations_->MountHostVolumes(&config),
              IsErr(Code::kInvalidArgument));
  EXPECT_EQ(client_->GetAllocation("cni-a1")->networks.size(), 1U);
}

// As many calls hang as there are connections, and one more.
TEST_F(HostVolumes, HangingStartsHoldUpNoOtherAllocation) {
  ASSERT_THAT(client_->PrepareAllocation("cni-b1"), IsOk());
  executor().script().Block("PrepareAllocation");
  std::vector<std::jthread> hang;
  for (std::size_t i = 0; i <= LentClients::kMost; ++i) {
    hang.push_back(Mounts("cni-a" + std::to_string(i)));
  }
  const bool all_hang =
      executor().script().AwaitBlocked("PrepareAllocation", hang.size());
  auto other = std::async(std::launch::async, [this] {
    return allocations_->ReleaseIfBare("cni-b1");
  });
  const auto ended = other.wait_for(kTestPatience);
  executor().script().UnblockAll();
  EXPECT_TRUE(all_hang);
  EXPECT_EQ(ended, std::future_status::ready);
  EXPECT_THAT(other.get(), IsOk());
  EXPECT_THAT(client_->GetAllocation("cni-b1"), IsErr(Code::kNotFound));
}

// The allocation's strand is taken, so the mount comes after the plugin's look
// and before its release.
TEST_F(HostVolumes, AMountThatComesMeanwhileKeepsTheAllocation) {
  ASSERT_THAT(allocations_->Prepare("cni-a1"), IsOk());
  executor().script().Block("PrepareAllocation");
  const auto first = std::async(std::launch::async, [this] {
    return Connect()->PrepareAllocation("cni-a1").has_value();
  });
  ASSERT_TRUE(executor().script().AwaitBlocked("PrepareAllocation"));
  auto mount = std::async(std::launch::async, [this] {
    agent::BindMountSpec spec;
    spec.task = "other";
    spec.name = spec.source = "data";
    spec.source_type = agent::SourceType::kHostVolume;
    return Connect()->BindMount("cni-a1", spec).has_value();
  });
  ASSERT_TRUE(Eventually([this] { return IsUnderWay("BindMount"); }));
  auto release = std::async(std::launch::async, [this] {
    return allocations_->ReleaseIfBare("cni-a1");
  });
  ASSERT_TRUE(Eventually([this] { return IsUnderWay("ReleaseAllocation"); }));
  executor().script().UnblockAll();
  EXPECT_TRUE(mount.get());
  EXPECT_THAT(release.get(), IsOk());
  const auto kept = client_->GetAllocation("cni-a1");
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->mounts.size(), 1U);
}

// Nomad destroys an earlier start of the task, or makes a new network.
TEST_F(HostVolumes, StayWhileATaskOfTheirNameRuns) {
  Mounted();
  running_ = {"web"};
  EXPECT_THAT(allocations_->UnmountHostVolumes("cni-a1", "web"),
              IsErr(Code::kBusy));
  EXPECT_THAT(allocations_->ReleaseIfBare("cni-a1"), IsOk());
  EXPECT_EQ(client_->GetAllocation("cni-a1")->mounts.size(), 1U);
  EXPECT_THAT(allocations_->UnmountHostVolumes("cni-a1", "log"), IsOk());
  EXPECT_TRUE(IsThere());
}

// A process has kept a file open.
TEST_F(HostVolumes, StayWhileTheyAreInUse) {
  Mounted();
  executor().FailNext("Detach", Code::kBusy);
  EXPECT_THAT(allocations_->UnmountHostVolumes("cni-a1", "web"),
              IsErr(Code::kBusy));
  EXPECT_TRUE(IsThere());
  // The end of the network finds what has been left.
  EXPECT_THAT(allocations_->ReleaseIfBare("cni-a1"), IsOk());
  EXPECT_FALSE(IsThere());
}

TEST_F(HostVolumes, InUseOutliveTheirNetwork) {
  Mounted();
  executor().FailNext("Detach", Code::kBusy);
  EXPECT_THAT(allocations_->ReleaseIfBare("cni-a1"), IsOk());
  EXPECT_TRUE(IsThere());
}

}  // namespace
}  // namespace mountd::nomad
