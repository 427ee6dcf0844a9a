// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;
using exec::ToWire;
using exec::VolumeArea;

constexpr char kPlugin[] = "/run/mountd/base/p/csi";
const std::string kKey(32, 'a');

class Plugins : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      PrepareBase();
      before_ = Inventory::Take();
    }
  }
  Reply Plugin(PlanKind kind) {
    return Call(kind, [](PlanBody* body) { body->plugin = {ToWire("csi")}; });
  }
  Reply Socket(PlanKind kind, const InstanceKey& instance = {}) {
    return Call(kind, [&](PlanBody* body) {
      body->plugin_socket =
          exec::PluginSocketPlan{ToWire("csi"), instance.hex(), 0};
    });
  }
  Reply VolumeDir(PlanKind kind, VolumeArea area) {
    return Call(kind, [&](PlanBody* body) { body->volume_dir = DirOf(area); });
  }
  static exec::VolumeDirPlan DirOf(VolumeArea area) {
    exec::VolumeDirPlan plan;
    plan.plugin = ToWire("csi");
    plan.area = area;
    if (area == VolumeArea::kPublish) {
      plan.allocation = ToWire("web");
    }
    plan.volume.fill('a');
    return plan;
  }
  Reply DetachVolume(VolumeArea area) {
    return Call(PlanKind::kRemoveVolumeDir, [&](PlanBody* body) {
      body->volume_dir = DirOf(area);
      body->volume_dir.detach = 1;
    });
  }
  Reply Probe(std::uint64_t mount_id) {
    return Call(PlanKind::kProbeVolume, [&](PlanBody* body) {
      body->volume_probe = {DirOf(VolumeArea::kPublish), mount_id};
    });
  }
  Reply AttachPublished(Propagation mode) {
    Request request = AttachRequest("", mode);
    request.body.attach.source.kind = exec::SourceKind::kPublishedVolume;
    request.body.attach.source.plugin = ToWire("csi");
    request.body.attach.source.volume.fill('a');
    return Send(request);
  }
  UniqueFd Listen(const char* name) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = std::string(kPlugin) + "/" + name;
    path.copy(&address.sun_path[0], sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address),
                     sizeof(address)),
              0);
    EXPECT_EQ(::listen(fd.get(), 4), 0);
    return fd;
  }
  std::string Published() const {
    return std::string(kPlugin) + "/publish/web/" + kKey;
  }

  Inventory before_;
};

TEST_F(Plugins, ADirectoryIsAMountInAPeerGroupOfItsOwn) {
  const Reply base = Call(PlanKind::kPrepareBase);
  const Reply reply = Plugin(PlanKind::kPreparePlugin);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_NE(reply.body.mount.mount_id, 0U);
  EXPECT_NE(reply.body.mount.peer_group, 0U);
  EXPECT_NE(reply.body.mount.peer_group, base.body.mount.peer_group);
  EXPECT_EQ(reply.body.mount.master, 0U);
  struct stat st = {};
  for (const char* part : {"", "/staging", "/publish"}) {
    ASSERT_EQ(::stat((kPlugin + std::string(part)).c_str(), &st), 0);
    EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFDIR | 0700)) << part;
  }
  const Reply again = Plugin(PlanKind::kPreparePlugin);
  EXPECT_EQ(again.body.mount.mount_id, reply.body.mount.mount_id);
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kRemovePlugin)), "");
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kRemovePlugin)), "");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(Plugins, ADirectoryThatThePluginGaveAwayIsTakenBack) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  ASSERT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
      "");
  const std::string plugin(kPlugin);
  const std::vector<std::string> ours = {plugin, plugin + "/staging",
                                         plugin + "/publish",
                                         plugin + "/publish/web"};
  for (const std::string& path : ours) {
    ASSERT_EQ(::chown(path.c_str(), 1234, 1234), 0);
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  }
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  EXPECT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
      "");
  for (const std::string& path : ours) {
    struct stat st = {};
    ASSERT_EQ(::stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFDIR | 0700)) << path;
    EXPECT_EQ(st.st_uid + st.st_gid, 0U) << path;
  }
}

TEST_F(Plugins, AStagedDirectoryKeepsTheModeThatThePluginChose) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const std::string staged = std::string(kPlugin) + "/staging/" + kKey;
  ASSERT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kStaging)),
      "");
  ASSERT_EQ(::chmod(staged.c_str(), 0755), 0);
  EXPECT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kStaging)),
      "");
  struct stat st = {};
  ASSERT_EQ(::stat(staged.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFDIR | 0755));
}

TEST_F(Plugins, WhatIsNotThePluginsDirectoryIsNotTakenBack) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const std::string staging = std::string(kPlugin) + "/staging";
  ASSERT_EQ(::rmdir(staging.c_str()), 0);
  for (const char* target : {"/run/host/data", "publish"}) {
    ASSERT_EQ(::symlink(target, staging.c_str()), 0);
    EXPECT_NE(CodeOf(Plugin(PlanKind::kPreparePlugin)), "");
    ASSERT_EQ(::unlink(staging.c_str()), 0);
  }
  WriteFile(staging, "");
  EXPECT_NE(CodeOf(Plugin(PlanKind::kPreparePlugin)), "");
  ASSERT_EQ(::unlink(staging.c_str()), 0);
  MakeDirectories(staging);
  ASSERT_EQ(
      ::mount("/run/host/data", staging.c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kPreparePlugin)), "FailedPrecondition");
  struct stat st = {};
  ASSERT_EQ(::stat("/run/host/data", &st), 0);
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFDIR | 0755));
}

TEST_F(Plugins, WhatAPluginLeftIsRemovedButNothingBehindALink) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  MakeDirectories(std::string(kPlugin) + "/deep/er");
  WriteFile(std::string(kPlugin) + "/deep/er/file", "x");
  ASSERT_EQ(
      ::symlink("/run/host/data", (std::string(kPlugin) + "/out").c_str()), 0);
  Listen("csi.sock").reset();
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kRemovePlugin)), "");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
  EXPECT_TRUE(Exists("/run/host/data/file"));
}

TEST_F(Plugins, WhatLiesDeepIsRemovedToo) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  std::string path = kPlugin;
  for (int i = 0; i < 100; ++i) {
    path += "/d";
    MakeDirectories(path);
    WriteFile(path + "/file", "");
  }
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kRemovePlugin)), "");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(Plugins, AMountThatThePluginsCoversKeepsItsDirectoryAsItWas) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  Unmount(kPlugin);
  MountTmpfs(std::string(kPlugin) + "/staging");
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const Inventory covered = Inventory::Take();
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kRemovePlugin)), "Busy");
  EXPECT_EQ(Difference(covered, Inventory::Take()), "");
  Unmount(kPlugin);
  Unmount(std::string(kPlugin) + "/staging");
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kRemovePlugin)), "");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(Plugins, ADirectoryWithAMountBelowIsBusy) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const std::string staged = std::string(kPlugin) + "/staging/x";
  MountTmpfs(staged);
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kRemovePlugin)), "Busy");
  EXPECT_TRUE(Exists(staged + "/mark"));
  Unmount(staged);
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kRemovePlugin)), "");
}

// A plugin may mount anything, because it is root in its task, and its mounts
// arrive here. The executor therefore counts them.
TEST_F(Plugins, WhatAPluginMountsInItsTaskIsCounted) {
  const auto count = [&] {
    const Reply reply = Plugin(PlanKind::kCountMounts);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.mount_list.count;
  };
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kCountMounts)), "NotFound");
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  EXPECT_EQ(count(), 0U);
  const UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  MountTmpfs(std::string(kPlugin) + "/staging/one");
  for (int i = 0; i < 20; ++i) {
    MountTmpfs(std::string(kPlugin) + "/staging/one/" + std::to_string(i));
  }
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  EXPECT_EQ(count(), 21U);
  // A naive clone includes all these mounts, uncounted.
  MakeDirectories("/run/naive");
  ASSERT_EQ(::mount(kPlugin, "/run/naive", nullptr, MS_BIND | MS_REC, nullptr),
            0);
  EXPECT_NAIVE(Exists("/run/naive/staging/one/19/mark"));
  // The clone is private first, because as a peer its unmount would take the
  // directory's own mounts with it.
  ASSERT_EQ(
      ::mount(nullptr, "/run/naive", nullptr, MS_PRIVATE | MS_REC, nullptr), 0);
  ASSERT_EQ(::umount2("/run/naive", MNT_DETACH), 0);
  ASSERT_EQ(
      ::umount2((std::string(kPlugin) + "/staging/one").c_str(), MNT_DETACH),
      0);
  EXPECT_EQ(count(), 0U);
}

TEST_F(Plugins, ADirectoryThatSomethingElseIsMountedOnIsRefused) {
  MountTmpfs(kPlugin);
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kPreparePlugin)), "FailedPrecondition");
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kRemovePlugin)), "FailedPrecondition");
}

TEST_F(Plugins, ManyFilesAreRemovedInSeveralGoes) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  for (int i = 0; i < 5000; ++i) {
    WriteFile(std::string(kPlugin) + "/f" + std::to_string(i), "");
  }
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kRemovePlugin)), "ResourceExhausted");
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kRemovePlugin)), "");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(Plugins, AConnectionIsHandedOverWithItsPeer) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  EXPECT_EQ(CodeOf(Socket(PlanKind::kConnectPlugin)), "Unavailable");
  const UniqueFd listener = Listen("csi.sock");
  const Reply reply = Socket(PlanKind::kConnectPlugin);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.plugin.peer_pid, static_cast<unsigned>(::getpid()));
  EXPECT_EQ(reply.body.plugin.peer_uid, 0U);
  EXPECT_NE(reply.body.plugin.socket_inode, 0U);
  const UniqueFd accepted(
      ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_EQ(::write(last_fd_.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(accepted.get(), &byte, 1), 1);
}

TEST_F(Plugins, ADeadSocketIsUnavailableAndAFullOneDoesNotHang) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  UniqueFd listener = Listen("csi.sock");
  std::vector<UniqueFd> held;
  std::string code;
  for (int i = 0; i < 50 && code.empty(); ++i) {
    code = CodeOf(Socket(PlanKind::kConnectPlugin));
    held.push_back(std::move(last_fd_));
  }
  EXPECT_EQ(code, "Unavailable");
  listener.reset();
  EXPECT_EQ(CodeOf(Socket(PlanKind::kConnectPlugin)), "Unavailable");
}

TEST_F(Plugins, ALinkedSocketOrAFileIsRefused) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const std::string endpoint = std::string(kPlugin) + "/csi.sock";
  const UniqueFd listener = Listen("real.sock");
  ASSERT_EQ(::symlink("real.sock", endpoint.c_str()), 0);
  EXPECT_EQ(CodeOf(Socket(PlanKind::kConnectPlugin)), "InvalidArgument");
  ASSERT_EQ(::unlink(endpoint.c_str()), 0);
  WriteFile(endpoint, "");
  EXPECT_EQ(CodeOf(Socket(PlanKind::kConnectPlugin)), "FailedPrecondition");
}

TEST_F(Plugins, EachInstanceHasItsSocket) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const InstanceKey one = InstanceKey::Derive("web", "node");
  const InstanceKey other = InstanceKey::Derive("web", "controller");
  const std::string name = "csi-" + one.str() + ".sock";
  UniqueFd listener = Listen(name.c_str());
  const Reply reply = Socket(PlanKind::kConnectPlugin, one);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(CodeOf(Socket(PlanKind::kConnectPlugin, other)), "Unavailable");
  EXPECT_EQ(CodeOf(Socket(PlanKind::kConnectPlugin)), "Unavailable");
  const auto inode = [&](const InstanceKey& of) {
    const Reply seen = Socket(PlanKind::kInspectPluginSocket, of);
    EXPECT_EQ(ErrorOf(seen), "");
    return seen.body.plugin.socket_inode;
  };
  EXPECT_EQ(inode(one), reply.body.plugin.socket_inode);
  EXPECT_EQ(inode(other), 0U);
  ASSERT_EQ(::unlink((std::string(kPlugin) + "/" + name).c_str()), 0);
  listener = Listen(name.c_str());
  EXPECT_NE(inode(one), reply.body.plugin.socket_inode);
  EXPECT_EQ(ErrorOf(Socket(PlanKind::kRemovePluginSocket, one)), "");
  EXPECT_EQ(ErrorOf(Socket(PlanKind::kRemovePluginSocket, one)), "");
  EXPECT_EQ(inode(one), 0U);
  listener.reset();
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kRemovePlugin)), "");
  EXPECT_EQ(ErrorOf(Socket(PlanKind::kRemovePluginSocket, one)), "");
}

TEST_F(Plugins, AnInstanceIsNoPath) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const Reply reply = Call(PlanKind::kRemovePluginSocket, [&](PlanBody* body) {
    body->plugin_socket = exec::PluginSocketPlan{ToWire("csi"), {}, 0};
    std::string("/../../../../../")
        .copy(body->plugin_socket.instance.data(),
              body->plugin_socket.instance.size());
  });
  EXPECT_EQ(CodeOf(reply), "InvalidArgument");
}

TEST_F(Plugins, VolumeDirectoriesAreMadeInspectedAndRemoved) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const Inventory prepared = Inventory::Take();
  for (const VolumeArea area : {VolumeArea::kStaging, VolumeArea::kPublish}) {
    EXPECT_EQ(VolumeDir(PlanKind::kInspectVolumeDir, area).body.mount.exists,
              0U);
    const Reply made = VolumeDir(PlanKind::kPrepareVolumeDir, area);
    EXPECT_EQ(ErrorOf(made), "");
    EXPECT_EQ(made.body.mount.exists, area == VolumeArea::kStaging ? 1U : 0U);
    EXPECT_EQ(ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, area)), "");
    EXPECT_EQ(ErrorOf(VolumeDir(PlanKind::kRemoveVolumeDir, area)), "");
    EXPECT_EQ(ErrorOf(VolumeDir(PlanKind::kRemoveVolumeDir, area)), "");
  }
  EXPECT_EQ(Difference(prepared, Inventory::Take()), "");
}

TEST_F(Plugins, AMountedVolumeDirectoryIsNotRemoved) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const std::string staged = std::string(kPlugin) + "/staging/" + kKey;
  MountTmpfs(staged);
  const Reply state =
      VolumeDir(PlanKind::kInspectVolumeDir, VolumeArea::kStaging);
  EXPECT_NE(state.body.mount.mount_id, 0U);
  EXPECT_EQ(CodeOf(VolumeDir(PlanKind::kRemoveVolumeDir, VolumeArea::kStaging)),
            "Busy");
  Unmount(staged);
  EXPECT_EQ(CodeOf(VolumeDir(PlanKind::kRemoveVolumeDir, VolumeArea::kStaging)),
            "");
}

TEST_F(Plugins, WithoutThePluginItsMountsAreDetached) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const Inventory prepared = Inventory::Take();
  ASSERT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
      "");
  MountTmpfs(Published());
  MountTmpfs(Published());  // two mounts on the same place
  UniqueFd busy(::open(Published().c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(CodeOf(VolumeDir(PlanKind::kRemoveVolumeDir, VolumeArea::kPublish)),
            "Busy");
  EXPECT_EQ(ErrorOf(DetachVolume(VolumeArea::kPublish)), "");
  EXPECT_EQ(ErrorOf(DetachVolume(VolumeArea::kPublish)), "");
  busy.reset();
  EXPECT_EQ(Difference(prepared, Inventory::Take()), "");
  EXPECT_EQ(CodeOf(DetachVolume(VolumeArea::kStaging)), "InvalidArgument");
}

TEST_F(Plugins, UpToSixtyFourStackedMountsAreDetachedAtOnce) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const Inventory prepared = Inventory::Take();
  const auto stack = [&](int count) {
    ASSERT_EQ(
        ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
        "");
    for (int i = 0; i < count; ++i) {
      MountTmpfs(Published());
    }
  };
  stack(64);
  EXPECT_EQ(ErrorOf(DetachVolume(VolumeArea::kPublish)), "");
  EXPECT_EQ(Difference(prepared, Inventory::Take()), "");
  stack(65);
  EXPECT_EQ(CodeOf(DetachVolume(VolumeArea::kPublish)), "Busy");
  EXPECT_EQ(ErrorOf(DetachVolume(VolumeArea::kPublish)), "");
  EXPECT_EQ(Difference(prepared, Inventory::Take()), "");
}

TEST_F(Plugins, WhatThePluginMountedBesideGoesWithTheLastVolume) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  const Inventory prepared = Inventory::Take();
  ASSERT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
      "");
  const std::string stray = Published() + ".elsewhere";
  MountTmpfs(stray);
  const std::string other =
      std::filesystem::path(Published()).parent_path() / std::string(32, 'b');
  ASSERT_EQ(::mkdir(other.c_str(), 0700), 0);
  EXPECT_EQ(
      ErrorOf(VolumeDir(PlanKind::kRemoveVolumeDir, VolumeArea::kPublish)), "");
  EXPECT_TRUE(IsMountPoint(stray));
  ASSERT_EQ(::rmdir(other.c_str()), 0);
  EXPECT_EQ(
      ErrorOf(VolumeDir(PlanKind::kRemoveVolumeDir, VolumeArea::kPublish)), "");
  EXPECT_EQ(Difference(prepared, Inventory::Take()), "");
}

TEST_F(Plugins, WhatIsInABareDirectoryIsNotDetached) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  ASSERT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
      "");
  ASSERT_EQ(::mkdir(Published().c_str(), 0700), 0);
  WriteFile(Published() + "/precious", "data");
  EXPECT_EQ(ErrorOf(DetachVolume(VolumeArea::kPublish)), "");
  EXPECT_EQ(::access((Published() + "/precious").c_str(), F_OK), 0);
  std::filesystem::remove_all(Published());
}

TEST_F(Plugins, ADeviceIsTold) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  ASSERT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
      "");
  ASSERT_EQ(::mknod(Published().c_str(), S_IFBLK | 0600, ::makedev(7, 200)), 0);
  const Reply device =
      VolumeDir(PlanKind::kInspectVolumeDir, VolumeArea::kPublish);
  EXPECT_EQ(device.body.mount.block_device, ::makedev(7, 200));
  ASSERT_EQ(::unlink(Published().c_str()), 0);
  ASSERT_EQ(::mknod(Published().c_str(), S_IFCHR | 0600, ::makedev(1, 3)), 0);
  EXPECT_EQ(VolumeDir(PlanKind::kInspectVolumeDir, VolumeArea::kPublish)
                .body.mount.block_device,
            0U);
  ASSERT_EQ(::unlink(Published().c_str()), 0);
}

TEST_F(Plugins, WhatIsPublishedIsAskedWhetherItAnswers) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  ASSERT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
      "");
  EXPECT_EQ(CodeOf(Probe(0)), "NotFound");
  MountTmpfs(Published());
  const std::uint64_t id =
      VolumeDir(PlanKind::kInspectVolumeDir, VolumeArea::kPublish)
          .body.mount.mount_id;
  EXPECT_EQ(CodeOf(Probe(id + 1)), "NotFound");
  const Reply alive = Probe(id);
  EXPECT_EQ(ErrorOf(alive), "");
  EXPECT_EQ(alive.body.probe.health, exec::MountHealth::kHealthy);
  Unmount(Published());
  EXPECT_EQ(CodeOf(Probe(id)), "NotFound");
}

TEST_F(Plugins, APublishedMountIsASourceInEveryMode) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  ASSERT_EQ(
      ErrorOf(VolumeDir(PlanKind::kPrepareVolumeDir, VolumeArea::kPublish)),
      "");
  MountTmpfs(Published());
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    const Reply reply = AttachPublished(mode);
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
    MountTmpfs(Published() + "/later");
    EXPECT_EQ(Exists(std::string(kTarget) + "/later/mark"),
              mode != Propagation::kPrivate);
    Unmount(Published() + "/later");
    ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  }
}

TEST_F(Plugins, APublishedBareDirectoryIsASourceToo) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  MakeDirectories(Published());
  WriteFile(Published() + "/mark", "");
  const Reply reply = AttachPublished(Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
}

TEST_F(Plugins, APublishedLinkIsRefused) {
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kPreparePlugin)), "");
  MakeDirectories(std::string(kPlugin) + "/publish/web");
  ASSERT_EQ(::symlink("/etc", Published().c_str()), 0);
  EXPECT_EQ(CodeOf(AttachPublished(Propagation::kPrivate)), "InvalidArgument");
  EXPECT_FALSE(Exists(kTarget));
  // The answer does not say what the link leads to, either.
  const Reply seen =
      VolumeDir(PlanKind::kInspectVolumeDir, VolumeArea::kPublish);
  EXPECT_EQ(ErrorOf(seen), "");
  EXPECT_EQ(seen.body.mount.mount_id, 0U);
  EXPECT_EQ(seen.body.mount.is_directory, 0U);
}

}  // namespace
}  // namespace mountd::testing
