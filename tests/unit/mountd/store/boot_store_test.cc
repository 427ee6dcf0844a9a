// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/boot_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd::store {
namespace {

MountRecord Mount(const std::string& allocation, const std::string& name) {
  MountRecord record;
  record.allocation = allocation;
  record.task = "task";
  record.name = name;
  record.wish.source_kind = exec::SourceKind::kHostVolume;
  record.wish.source = "data";
  record.wish.propagation = exec::Propagation::kHostToTask;
  record.wish.attributes = exec::kReadOnly | exec::kNoAtime;
  record.wish.task_path = "/data";
  record.wish.ids.count = 2;
  record.wish.ids.extents = {{{1000, 200000, 1}, {0, 1, exec::kNoId}}};
  record.wish.ids.gid_count = 1;
  record.wish.ids.gids[0] = {exec::kNoId - 1, 3, 1};
  record.wish.tmpfs = {4096, 4, 0700, 1000, exec::kNoId - 1, 1};
  record.state = MountRecordState::kAttached;
  record.mount_id = UINT64_MAX;
  record.peer_group = 11;
  record.master = 12;
  return record;
}

AnchorKey Volume(const std::string& name) {
  return {exec::SourceKind::kHostVolume, name};
}

NetworkRecord Network(const std::string& allocation, std::uint8_t last_byte,
                      std::uint16_t port, std::uint8_t protocols) {
  NetworkRecord record;
  record.allocation = allocation;
  record.interface = "eth0";
  record.network = "default";
  record.flags = exec::kIsolated;
  record.netns_given = true;
  record.taken_over = true;
  record.ipv4 = {10, 0, 0, last_byte};
  record.ipv6 = {0xfd};
  record.ipv6[15] = last_byte;
  record.ports = {{"http", port, 80, protocols}};
  return record;
}

class BootStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    auto opened = BootStore::Open(directory_.File("boot.db"));
    ASSERT_EQ(MessageOf(opened), "Ok");
    store_ = std::move(*opened);
  }
  void Put(const MountRecord& record) {
    ASSERT_EQ(MessageOf(store_->mounts.PutMount(record)), "Ok");
  }

  TempDirectory directory_;
  std::unique_ptr<BootStore> store_;
};

TEST_F(BootStoreTest, WhatAnotherBootHasLeftIsForgotten) {
  Put(Mount("web", "d"));  // left by a mountd that recorded no boot
  ASSERT_EQ(MessageOf(store_->AdoptBoot("first")), "Ok");
  EXPECT_EQ(store_->mounts.ListMounts()->size(), 1U);
  ASSERT_EQ(MessageOf(store_->inboxes.PutInbox({"web", "task"})), "Ok");
  ASSERT_EQ(MessageOf(store_->anchors.PutAnchor(Volume("data"), 5)), "Ok");
  ASSERT_EQ(MessageOf(store_->networks.AddNetwork(Network("web", 2, 80, 1))),
            "Ok");
  ASSERT_EQ(MessageOf(store_->networks.AddNetwork(Network("db", 3, 81, 1))),
            "Ok");
  ASSERT_EQ(
      MessageOf(store_->networks.QuarantineNetwork(Network("db", 3, 81, 1))),
      "Ok");
  ASSERT_EQ(
      MessageOf(store_->handed_out.PutHandedOut({{5, 6, 7}, "web", 1000})),
      "Ok");
  Open();
  ASSERT_EQ(MessageOf(store_->AdoptBoot("first")), "Ok");
  EXPECT_EQ(store_->mounts.ListMounts()->size(), 1U);
  EXPECT_EQ(store_->handed_out.CountHandedOut("web").value(), 1U);
  EXPECT_EQ(store_->networks.ListQuarantine()->size(), 1U);
  Open();
  ASSERT_EQ(MessageOf(store_->AdoptBoot("second")), "Ok");
  EXPECT_TRUE(store_->mounts.ListMounts()->empty());
  EXPECT_TRUE(store_->inboxes.InboxesOf("web")->empty());
  EXPECT_TRUE(store_->anchors.ListAnchors()->empty());
  EXPECT_TRUE(store_->networks.ListNetworks()->empty());
  EXPECT_TRUE(store_->networks.ListQuarantine()->empty());
  EXPECT_TRUE(store_->handed_out.HandedOutOf("web")->empty());
}

TEST_F(BootStoreTest, WhatWasHandedOutIsKept) {
  const HandedOutRecord tree = {{UINT64_MAX - 1, 11, 12}, "web", 1000};
  HandedOutRecord inbox = {{5, 13, 14}, "web", 1000};
  inbox.kind = HandedOutKind::kInbox;
  inbox.source_kind = exec::SourceKind::kPublishedVolume;
  inbox.name = "task";
  const HandedOutRecord other = {{6, 13, 14}, "db", 1001};
  for (const HandedOutRecord& record : {tree, inbox, other, other}) {
    ASSERT_EQ(MessageOf(store_->handed_out.PutHandedOut(record)), "Ok");
  }
  Open();
  EXPECT_EQ(store_->handed_out.CountHandedOut("web").value(), 2U);
  EXPECT_EQ(store_->handed_out.CountHandedOutOfUser(1001).value(), 1U);
  EXPECT_EQ(store_->handed_out.HandedOutOfUser(1000)->size(), 2U);
  auto of_web = store_->handed_out.HandedOutOf("web");
  ASSERT_EQ(of_web->size(), 2U);
  const auto is_inbox = [](const HandedOutRecord& record) {
    return record.kind == HandedOutKind::kInbox;
  };
  const auto found = std::find_if(of_web->begin(), of_web->end(), is_inbox);
  ASSERT_NE(found, of_web->end());
  EXPECT_EQ(found->mount.mount_id, 5U);
  EXPECT_EQ(found->mount.reusable_id, 13U);
  EXPECT_EQ(found->mount.device, 14U);
  EXPECT_EQ(found->uid, 1000U);
  EXPECT_EQ(found->source_kind, exec::SourceKind::kPublishedVolume);
  EXPECT_EQ(found->name, "task");
  ASSERT_EQ(MessageOf(store_->handed_out.ForgetHandedOut(tree)), "Ok");
  EXPECT_EQ(store_->handed_out.CountHandedOut("web").value(), 1U);
}

TEST_F(BootStoreTest, MountsAreKept) {
  Put(Mount("web", "d"));
  Open();
  const MountRecord record =
      store_->mounts.GetMount("web", "task", "d")->value();
  EXPECT_EQ(record.allocation, "web");
  EXPECT_EQ(record.task, "task");
  EXPECT_EQ(record.name, "d");
  EXPECT_EQ(record.wish.source_kind, exec::SourceKind::kHostVolume);
  EXPECT_EQ(record.wish.source, "data");
  EXPECT_EQ(record.wish.propagation, exec::Propagation::kHostToTask);
  EXPECT_EQ(record.wish.attributes, exec::kReadOnly | exec::kNoAtime);
  EXPECT_EQ(record.wish.task_path, "/data");
  EXPECT_EQ(record.wish.ids, Mount("web", "d").wish.ids);
  EXPECT_EQ(record.wish.tmpfs, Mount("web", "d").wish.tmpfs);
  EXPECT_EQ(record.state, MountRecordState::kAttached);
  EXPECT_EQ(record.mount_id, UINT64_MAX);
  EXPECT_EQ(record.peer_group, 11U);
  EXPECT_EQ(record.master, 12U);
  EXPECT_FALSE(store_->mounts.GetMount("web", "task", "e")->has_value());
}

TEST_F(BootStoreTest, ATmpfsCountsByItsAllocation) {
  EXPECT_EQ(store_->mounts.TmpfsBytesOf("web").value(), 0U);
  Put(Mount("web", "d"));
  Put(Mount("web", "e"));
  Put(Mount("db", "d"));
  EXPECT_EQ(store_->mounts.TmpfsBytesOf("web").value(), 8192U);
  EXPECT_EQ(MessageOf(store_->mounts.RemoveMount(Mount("web", "d"))), "Ok");
  EXPECT_EQ(store_->mounts.TmpfsBytesOf("web").value(), 4096U);
}

TEST_F(BootStoreTest, APutReplaces) {
  Put(Mount("web", "d"));
  MountRecord lost = Mount("web", "d");
  lost.state = MountRecordState::kLost;
  Put(lost);
  EXPECT_EQ(store_->mounts.ListMounts()->size(), 1U);
  EXPECT_EQ(store_->mounts.GetMount("web", "task", "d")->value().state,
            MountRecordState::kLost);
}

TEST_F(BootStoreTest, MountsAreCountedAndListedByWhatTheyAreOf) {
  Put(Mount("web", "b"));
  Put(Mount("web", "a"));
  Put(Mount("db", "a"));
  MountRecord volume = Mount("db", "v");
  volume.wish.source_kind = exec::SourceKind::kPublishedVolume;
  Put(volume);
  EXPECT_EQ(store_->mounts.ListMounts()->size(), 4U);
  const auto web = store_->mounts.MountsOf("web");
  ASSERT_EQ(web->size(), 2U);
  EXPECT_EQ(web->at(0).name, "a");
  EXPECT_EQ(*store_->mounts.CountMounts("web"), 2U);
  EXPECT_EQ(*store_->mounts.CountMounts("none"), 0U);
  // An alias of the same name is no host volume.
  EXPECT_TRUE(*store_->mounts.HasMountsOf(Volume("data")));
  EXPECT_FALSE(*store_->mounts.HasMountsOf(Volume("none")));
  EXPECT_TRUE(*store_->mounts.RemoveMount(Mount("web", "a")));
  EXPECT_FALSE(*store_->mounts.RemoveMount(Mount("web", "a")));
  EXPECT_EQ(*store_->mounts.CountMounts("web"), 1U);
  EXPECT_EQ(*store_->mounts.CountMounts("db"), 2U);
}

TEST_F(BootStoreTest, AnchorsAreKeptAndADoubtForgetsTheId) {
  const AnchorKey filesystem{exec::SourceKind::kFilesystem, "data"};
  ASSERT_EQ(Outcome(store_->anchors.PutAnchor(Volume("data"), 0)), "Ok");
  ASSERT_EQ(Outcome(store_->anchors.PutAnchor(Volume("data"), UINT64_MAX)),
            "Ok");
  ASSERT_EQ(Outcome(store_->anchors.PutAnchor(Volume("logs"), 2)), "Ok");
  ASSERT_EQ(Outcome(store_->anchors.DoubtAnchor(filesystem)), "Ok");
  ASSERT_EQ(Outcome(store_->anchors.DoubtAnchor(Volume("logs"))), "Ok");
  Open();
  EXPECT_EQ(
      *store_->anchors.ListAnchors(),
      (std::map<AnchorKey, std::uint64_t>{
          {Volume("data"), UINT64_MAX}, {Volume("logs"), 0}, {filesystem, 0}}));
  ASSERT_EQ(Outcome(store_->anchors.RemoveAnchor(Volume("data"))), "Ok");
  EXPECT_EQ(store_->anchors.ListAnchors()->size(), 2U);
  EXPECT_TRUE(store_->anchors.ListAnchors()->contains(filesystem));
}

TEST_F(BootStoreTest, NetworksAreKept) {
  const NetworkRecord added = Network("web", 2, 20080, exec::kTcp | exec::kUdp);
  ASSERT_EQ(MessageOf(store_->networks.AddNetwork(added)), "Ok");
  NetworkRecord created = added;
  created.state = NetworkRecordState::kCreated;
  created.netns_inode = UINT64_MAX;
  ASSERT_EQ(Outcome(store_->networks.SetNetworkState(created)), "Ok");
  Open();
  ASSERT_EQ(store_->networks.NetworksOf("web")->size(), 1U);
  const NetworkRecord record = store_->networks.NetworksOf("web")->front();
  EXPECT_EQ(record.interface, "eth0");
  EXPECT_EQ(record.mode, NetworkMode::kBridge);
  EXPECT_EQ(record.flags, exec::kIsolated);
  EXPECT_TRUE(record.netns_given);
  EXPECT_TRUE(record.taken_over);
  EXPECT_EQ(record.allocation, "web");
  EXPECT_EQ(record.network, "default");
  EXPECT_EQ(record.ipv4, added.ipv4);
  EXPECT_EQ(record.ipv6, added.ipv6);
  EXPECT_EQ(record.ports, added.ports);
  EXPECT_EQ(record.state, NetworkRecordState::kCreated);
  EXPECT_EQ(record.netns_inode, UINT64_MAX);
  EXPECT_EQ(store_->networks.ListNetworks()->size(), 1U);
  EXPECT_TRUE(store_->networks.NetworksOf("db")->empty());
}

TEST_F(BootStoreTest, NetworksAreFoundByAllocationOrAddress) {
  const NetworkRecord web = Network("web", 2, 80, exec::kTcp);
  const NetworkRecord db = Network("db", 3, 81, exec::kTcp);
  ASSERT_EQ(Outcome(store_->networks.AddNetwork(web)), "Ok");
  ASSERT_EQ(Outcome(store_->networks.AddNetwork(db)), "Ok");
  const auto found = [&](const std::vector<std::string>& keys,
                         bool ipv6_alone = false) {
    std::string names;
    const auto records = store_->networks.NetworksWith(keys, ipv6_alone);
    for (const NetworkRecord& record : *records) {
      names += record.allocation + " ";
    }
    return names;
  };
  EXPECT_EQ(found({}), "");
  EXPECT_EQ(found({"web"}), "web ");
  EXPECT_EQ(found({"other", netns::ToString(db.ipv4)}), "db ");
  EXPECT_EQ(found({netns::ToString(web.ipv6)}), "web ");
  EXPECT_EQ(found({"web", netns::ToString(db.ipv4)}), "db web ");
  EXPECT_EQ(found({"') OR (1", "\xff\xfe", "\"]", "we"}), "");
  // A network of CNI has neither address.
  NetworkRecord cni = Network("cni", 4, 82, exec::kTcp);
  cni.ipv4 = {};
  cni.ipv6 = {};
  NetworkRecord six = Network("six", 5, 83, exec::kTcp);
  six.ipv4 = {};
  ASSERT_EQ(Outcome(store_->networks.AddNetwork(cni)), "Ok");
  ASSERT_EQ(Outcome(store_->networks.AddNetwork(six)), "Ok");
  EXPECT_EQ(found({}), "");
  EXPECT_EQ(found({}, true), "six ");
  EXPECT_EQ(found({"web"}, true), "six web ");
}

TEST_F(BootStoreTest, AnAllocationHasOneNetworkOfAnInterface) {
  NetworkRecord web = Network("web", 2, 80, exec::kTcp);
  ASSERT_EQ(MessageOf(store_->networks.AddNetwork(web)), "Ok");
  EXPECT_EQ(
      Outcome(store_->networks.AddNetwork(Network("web", 6, 81, exec::kTcp))),
      "AlreadyExists");
  NetworkRecord second = Network("web", 3, 81, exec::kTcp);
  second.interface = "eth1";
  ASSERT_EQ(MessageOf(store_->networks.AddNetwork(second)), "Ok");
  ASSERT_EQ(MessageOf(store_->networks.RemoveNetwork(web)), "Ok");
  ASSERT_EQ(store_->networks.NetworksOf("web")->size(), 1U);
  EXPECT_EQ(store_->networks.NetworksOf("web")->front().interface, "eth1");
}

TEST_F(BootStoreTest, AQuarantinedNetworkKeepsItsAddressOnly) {
  const NetworkRecord web = Network("web", 2, 80, exec::kTcp);
  ASSERT_EQ(MessageOf(store_->networks.AddNetwork(web)), "Ok");
  ASSERT_EQ(MessageOf(store_->networks.QuarantineNetwork(web)), "Ok");
  Open();
  EXPECT_TRUE(store_->networks.NetworksOf("web")->empty());
  const auto quarantine = store_->networks.ListQuarantine();
  ASSERT_EQ(quarantine->size(), 1U);
  EXPECT_EQ(quarantine->at(0).network, "default");
  EXPECT_EQ(quarantine->at(0).ipv4, web.ipv4);
  EXPECT_EQ(quarantine->at(0).ipv6, web.ipv6);
  EXPECT_EQ(
      MessageOf(store_->networks.AddNetwork(Network("db", 3, 80, exec::kTcp))),
      "Ok");
  ASSERT_EQ(Outcome(store_->networks.EndQuarantine(quarantine->front())), "Ok");
  EXPECT_TRUE(store_->networks.ListQuarantine()->empty());
}

TEST_F(BootStoreTest, PortsThatAreMappedOnlyIfFreeAreKept) {
  NetworkRecord web = Network("web", 2, 80, exec::kTcp | exec::kUdp);
  web.ports[0].if_free = exec::kUdp;
  ASSERT_EQ(MessageOf(store_->networks.AddNetwork(web)), "Ok");
  web.ports[0].protocols = exec::kTcp;
  ASSERT_EQ(MessageOf(store_->networks.SetNetworkPorts(web)), "Ok");
  Open();
  EXPECT_EQ(store_->networks.NetworksOf("web")->front().ports, web.ports);
}

TEST_F(BootStoreTest, AnUpdateOfPortsIsKeptUntilItIsDone) {
  NetworkRecord web = Network("web", 2, 80, exec::kTcp);
  ASSERT_EQ(MessageOf(store_->networks.AddNetwork(web)), "Ok");
  const auto next = [&] {
    return store_->networks.NetworksOf("web")->front().next_ports;
  };
  EXPECT_FALSE(next().has_value());
  web.next_ports.emplace();
  ASSERT_EQ(MessageOf(store_->networks.SetNetworkPorts(web)), "Ok");
  Open();
  ASSERT_TRUE(next().has_value());
  EXPECT_TRUE(next()->empty()) << "no port is a set, too";
  web.next_ports = web.ports;
  ASSERT_EQ(MessageOf(store_->networks.SetNetworkPorts(web)), "Ok");
  EXPECT_EQ(next(), web.ports);
  web.next_ports.reset();
  ASSERT_EQ(MessageOf(store_->networks.SetNetworkPorts(web)), "Ok");
  EXPECT_FALSE(next().has_value());
}

TEST_F(BootStoreTest, NetworksWithIpv6AloneAreQuarantinedApart) {
  for (const std::uint8_t host : {std::uint8_t{2}, std::uint8_t{3}}) {
    NetworkRecord one =
        Network("web" + std::to_string(host), host, 80, exec::kTcp);
    one.ipv4 = {};
    one.ipv6 = {0xfd, 0x66};
    one.ipv6.back() = host;
    ASSERT_EQ(MessageOf(store_->networks.AddNetwork(one)), "Ok");
    ASSERT_EQ(MessageOf(store_->networks.QuarantineNetwork(one)), "Ok");
  }
  const auto both = store_->networks.ListQuarantine();
  ASSERT_EQ(both->size(), 2U);
  ASSERT_EQ(Outcome(store_->networks.EndQuarantine(both->front())), "Ok");
  const auto left = store_->networks.ListQuarantine();
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ(left->front().ipv6, both->back().ipv6);
}

TEST_F(BootStoreTest, ALogThatIsCopiedBackLosesNothing) {
  const std::string log = directory_.File("boot.db-wal");
  Put(Mount("web", "d"));
  std::uintmax_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    const MountRecordState state =
        i % 2 == 0 ? MountRecordState::kDetaching : MountRecordState::kAttached;
    ASSERT_EQ(Outcome(store_->mounts.SetMountState(Mount("web", "d"), state)),
              "Ok");
    most = std::max(most, std::filesystem::file_size(log));
  }
  // A log that was never copied back would have a page for each write.
  EXPECT_LT(most, 1000U * 1024);
  Open();
  EXPECT_EQ(store_->mounts.GetMount("web", "task", "d")->value().state,
            MountRecordState::kAttached);
}

}  // namespace
}  // namespace mountd::store
