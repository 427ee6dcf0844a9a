// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Plugins that come, go and change, and the volumes that they have published.
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "tests/root/node/node_csi_fixture.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

// ---- Instances ----

// Owns two processes of one plugin, each with a socket of its own. They share
// their volumes, as during the update of a daemon set.
class NodeCsiInstances : public NodeCsi {
 protected:
  // Registers an instance. Returns its socket's path.
  std::string Register(const std::string& allocation) {
    EXPECT_EQ(Outcome(client_->PrepareAllocation(allocation)), "Ok");
    agent::PluginSpec spec;
    spec.plugin = "pair";
    spec.allocation = allocation;
    const auto registered = client_->RegisterPlugin(spec);
    EXPECT_EQ(MessageOf(registered), "Ok");
    constexpr std::string_view kScheme = "unix://";
    return registered ? registered->endpoint.substr(kScheme.size()) : "";
  }
  static Process Run(const std::string& socket, const std::string& node) {
    return Process({FAULT_PLUGIN, socket, kFaults, node});
  }
  // Waits until the process with this node id serves the plugin.
  bool AwaitServing(const std::string& node) {
    return Eventually([&] {
      const auto plugin = client_->GetPlugin("pair");
      return plugin && plugin->state == "healthy" && plugin->node_id == node;
    });
  }
  // Publishes as an agent does, which makes the call again while the plugin
  // does not answer: on a busy machine a probe may be late.
  std::string PublishOnPair() {
    agent::VolumeSpec spec = Volume();
    spec.plugin = "pair";
    std::string outcome;
    Eventually([&] {
      outcome = Outcome(client_->PublishVolume("web", spec));
      return outcome != "Unavailable";
    });
    return outcome;
  }
};

TEST_F(NodeCsiInstances, TheNewestServesAndOthersTakeOver) {
  const std::string first_socket = Register("p1");
  Process first = Run(first_socket, "first");
  ASSERT_TRUE(AwaitServing("first"));
  const std::string second_socket = Register("p2");
  ASSERT_NE(second_socket, first_socket);
  Process second = Run(second_socket, "second");
  ASSERT_TRUE(AwaitServing("second"));

  // One instance publishes the volume, the other one unpublishes it.
  EXPECT_EQ(PublishOnPair(), "Ok");
  second = Process();
  EXPECT_TRUE(AwaitServing("first"));
  EXPECT_EQ(Outcome(client_->UnpublishVolume("web", "data")), "Ok");
  EXPECT_EQ(PublishOnPair(), "Ok");
  second = Run(second_socket, "second");
  EXPECT_TRUE(AwaitServing("second"));

  // One instance may go while the volume is there; the last instance may not.
  agent::PluginSelection which;
  which.allocation = "p2";
  EXPECT_EQ(Outcome(client_->UnregisterPlugin("pair", which)), "Ok");
  EXPECT_TRUE(AwaitServing("first"));
  EXPECT_EQ(Outcome(client_->UnregisterPlugin("pair")), "Busy");
  EXPECT_EQ(Outcome(client_->UnpublishVolume("web", "data")), "Ok");
  EXPECT_TRUE(Eventually([&] { return NothingIsLeft(); }));
  EXPECT_EQ(Outcome(client_->UnregisterPlugin("pair")), "Busy");
  first = Process();  // their sockets are in the directory
  second = Process();
  EXPECT_EQ(Outcome(client_->UnregisterPlugin("pair")), "Ok");
  EXPECT_EQ(Outcome(client_->GetPlugin("pair")), "NotFound");
}

TEST_F(NodeCsiInstances, AnotherSocketAtItsPathIsAnotherProcess) {
  const std::string socket = Register("p1");
  const Process first = Run(socket, "first");
  ASSERT_TRUE(AwaitServing("first"));
  const auto before = client_->GetPlugin("pair");
  ASSERT_EQ(MessageOf(before), "Ok");
  // The first process lives on, and its connection with it.
  const Process second = Run(socket, "second");
  EXPECT_TRUE(AwaitServing("second"));
  const auto after = client_->GetPlugin("pair");
  ASSERT_EQ(MessageOf(after), "Ok");
  EXPECT_GT(after->update_time, before->update_time);
}

// ---- Health ----

TEST_F(NodeCsi, OneThatIsNotReadyInItsTimeIsUnhealthyUntilItIs) {
  agent::PluginSpec spec;
  spec.plugin = "late";
  spec.health_timeout = std::chrono::milliseconds(300);
  const auto registered = client_->RegisterPlugin(spec);
  ASSERT_EQ(MessageOf(registered), "Ok");
  const auto state = [&] {
    const auto plugin = client_->GetPlugin("late");
    return plugin ? plugin->state : "";
  };
  EXPECT_EQ(state(), "starting");
  EXPECT_TRUE(Eventually([&] { return state() == "unhealthy"; }));
  const Process late(
      {FAULT_PLUGIN, registered->host_path + "/csi.sock", "/run/host/late"});
  EXPECT_TRUE(Eventually([&] { return state() == "healthy"; }));
  Tell("Probe", "hang");  // concerns the plugin "fault" alone
  EXPECT_TRUE(AwaitPlugin("unhealthy"));
  EXPECT_EQ(state(), "healthy");
  Tell("", "");
  EXPECT_TRUE(AwaitPlugin("healthy"));
}

TEST_F(NodeCsi, OneWithTooMuchToSayIsUnhealthy) {
  for (const char* rpc : {"GetPluginInfo", "NodeGetInfo"}) {
    SCOPED_TRACE(rpc);
    Tell(rpc, "huge");
    plugin_ = Process();
    ASSERT_TRUE(AwaitPlugin("unhealthy"));
    const std::size_t before = Asked(rpc);
    plugin_ = Process(
        {FAULT_PLUGIN, std::string(kFaultDirectory) + "/csi.sock", kFaults});
    // mountd has asked again, because it did not accept the answer.
    EXPECT_TRUE(Eventually([&] { return Asked(rpc) >= before + 2; }));
    EXPECT_TRUE(AwaitPlugin("unhealthy"));
    Tell("", "");
    EXPECT_TRUE(AwaitPlugin("healthy"));
  }
  EXPECT_EQ(Publish(), "Ok");
  ExpectReleased();
}

// mountd records the plugin's identity, but not its abilities.
TEST_F(NodeCsi, MountdStartsWithoutIt) {
  ASSERT_EQ(Publish(), "Ok");
  plugin_ = Process();
  ASSERT_TRUE(AwaitPlugin("unhealthy"));
  Node::KillAll();
  Connect();
  const auto known = client_->GetPlugin("fault");
  ASSERT_EQ(MessageOf(known), "Ok");
  EXPECT_EQ(known->provider, "fault.example");
  EXPECT_NE(known->state, "healthy");
  agent::VolumeSpec other = Volume("other");
  other.alias = "other";
  EXPECT_EQ(Outcome(client_->PublishVolume("web", other)), "Unavailable");
  EXPECT_EQ(Recorded(), "staged published");
  StartPlugin();
  EXPECT_EQ(Publish(), "Ok");
  ExpectReleased();
}

// ---- Mounts that died with their plugin ----

// A FUSE plugin's mounts die with the plugin. mountd publishes the volume
// again, and replaces the task's mount of it.
TEST_F(NodeCsi, WhatWentWithItsPluginIsPublishedAnew) {
  const auto published = client_->PublishVolume("web", Volume());
  ASSERT_EQ(MessageOf(published), "Ok");
  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = "data";
  spec.source_type = agent::SourceType::kVolume;
  spec.source = "data";
  ASSERT_EQ(MessageOf(client_->BindMount("web", spec)), "Ok");
  const auto inode_of = [&] {
    struct stat there {};
    return ::stat("/run/mountd/base/a/web/app/data", &there) == 0 ? there.st_ino
                                                                  : 0;
  };
  const ino_t before = inode_of();

  plugin_ = Process();
  ASSERT_TRUE(AwaitPlugin("unhealthy"));
  const std::string staged = std::string(kFaultDirectory) + "/staging/" +
                             fs::path(published->host_path).filename().string();
  ASSERT_EQ(::umount2(published->host_path.c_str(), MNT_DETACH), 0);
  ASSERT_EQ(::umount2(staged.c_str(), MNT_DETACH), 0);
  // The volume's data is another directory from now on, which tells a task's
  // old mount from a new one.
  fs::rename(std::string(kFaults) + "/data", "/run/host/old");
  StartPlugin();
  EXPECT_TRUE(Eventually([&] {
    return Recorded() == "staged published" &&
           MountPointsUnder(published->host_path).size() == 1;
  })) << Recorded();
  const auto capabilities = client_->GetCapabilities();
  if (capabilities && capabilities->features.at("mount-beneath")) {
    EXPECT_TRUE(Eventually([&] { return inode_of() != before; }));
  }
  EXPECT_EQ(Outcome(client_->Unmount("web", "app", "data")), "Ok");
  ExpectReleased();
}

// The volume is a FUSE file system, as with many plugins, whose server dies
// while a task uses it.
TEST_F(NodeCsi, AFileSystemWhoseServerDiedIsMountedAnew) {
  // The path is the volume's id in hex, which the plugin binds.
  const std::string data = std::string(kFaults) + "/data/76";
  fs::create_directories(data);
  auto server = std::make_unique<FuseServer>(data);
  if (!server->valid()) {
    GTEST_SKIP() << "FUSE: errno " << errno;
  }
  const auto published = client_->PublishVolume("web", Volume());
  ASSERT_EQ(MessageOf(published), "Ok");
  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = "data";
  spec.source = "data";
  const auto mount = client_->BindMount("web", spec);
  ASSERT_EQ(MessageOf(mount), "Ok");
  const auto is_there = [](const std::string& directory) {
    struct stat file {};
    return ::stat((directory + "/file").c_str(), &file) == 0;
  };
  ASSERT_TRUE(is_there(mount->host_path));

  server->Die();
  EXPECT_FALSE(is_there(mount->host_path));
  EXPECT_EQ(errno, ENOTCONN);
  plugin_ = Process();
  ASSERT_TRUE(AwaitPlugin("unhealthy"));
  ASSERT_EQ(::umount2(data.c_str(), MNT_DETACH), 0);
  server = std::make_unique<FuseServer>(data);
  ASSERT_TRUE(server->valid());
  StartPlugin();
  EXPECT_TRUE(Eventually([&] { return is_there(published->host_path); }));
  const auto capabilities = client_->GetCapabilities();
  if (capabilities && capabilities->features.at("mount-beneath")) {
    EXPECT_TRUE(Eventually([&] { return is_there(mount->host_path); }));
  }
  EXPECT_EQ(Outcome(client_->Unmount("web", "app", "data")), "Ok");
  ExpectReleased();
  ::umount2(data.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace mountd::testing
