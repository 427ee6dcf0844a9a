// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by way of paths and mounts. Each attack fails against the executor,
// and succeeds in the same test against a naive daemon, which shows that the
// test could fail.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "mountd/base/unix_socket.h"
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

// A directory of root's, which no volume may show.
constexpr char kSecret[] = "/run/host/secret";
constexpr char kNaiveTarget[] = "/run/naive";
constexpr int kTimes = 50;

bool NaiveBindReadOnly(const std::string& source, const std::string& target) {
  return NaiveBind(source, target) &&
         ::mount(nullptr, target.c_str(), nullptr,
                 MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
}

void NaiveUnmount(const std::string& path) { ::umount2(path.c_str(), 0); }

class Attacks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    ASSERT_EQ(
        ErrorOf(Call(PlanKind::kPrepareAllocation,
                     [](PlanBody* body) {
                       body->allocation = {exec::ToWire("open"), kAttacker};
                     })),
        "");
    MakeDirectories(std::string(kSecret) + "/inner");
    WriteFile(std::string(kSecret) + "/key", "");
    WriteFile(std::string(kSecret) + "/inner/key", "");
    MakeDirectories(kNaiveTarget);
  }

  // Declares a volume in a directory that the attacker owns.
  void DeclarePool(const std::string& path) {
    MakeDirectories("/run/host/pool/volume/inner");
    ASSERT_EQ(::symlink(kSecret, "/run/host/pool/link"), 0);
    Give("/run/host/pool");
    Give("/run/host/pool/volume");
    config_.host_volumes["pool"] = {path, false, {Propagation::kPrivate}};
  }
  // Releases the volume, with retries, because the attacker may exchange its
  // path at any moment.
  bool ReleasePool() {
    return Within([&] { return ReleaseHostVolume("pool", 0).code == 0; });
  }

  // Attaches the volume until it has succeeded often enough, while the attacker
  // works.
  void AttachOverAndOver(const std::string& volume) {
    int attached = 0;
    EXPECT_TRUE(Within([&] {
      const Reply reply = Attach(volume, Propagation::kPrivate);
      if (reply.code == 0) {
        ++attached;
        EXPECT_FALSE(Exists(std::string(kTarget) + "/key"));
        EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
      }
      return !ReleasePool() || attached == kTimes || HasFailure();
    }));
    EXPECT_EQ(attached, kTimes);
  }
};

class SourceExchange : public Attacks,
                       public ::testing::WithParamInterface<const char*> {};

TEST_P(SourceExchange, NeverLeadsToAnotherSource) {
  const std::string path = GetParam();
  DeclarePool(path);
  const Inventory before = Inventory::Take();
  {
    const Attacker attacker(
        [] { Exchange("/run/host/pool/volume", "/run/host/pool/link"); });
    AttachOverAndOver("pool");
    EXPECT_NAIVE(Within([&] {
      const bool seen = NaiveBind(path, kNaiveTarget) &&
                        Exists(std::string(kNaiveTarget) + "/key");
      NaiveUnmount(kNaiveTarget);
      return seen;
    })) << "of the naive daemon";
  }
  if (IsDirectory("/run/host/pool/link")) {
    Exchange("/run/host/pool/volume", "/run/host/pool/link");
  }
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

INSTANTIATE_TEST_SUITE_P(Of, SourceExchange,
                         ::testing::Values("/run/host/pool/volume",
                                           "/run/host/pool/volume/inner"),
                         [](const auto& each) {
                           return std::string(each.index == 0 ? "TheLastPart"
                                                              : "AMiddlePart");
                         });

// The caller owns the directory, and exchanges it for a link after the
// executor's check.
TEST_F(Attacks, ATargetExchangedForALinkIsNotMountedOnWhatItLeadsTo) {
  static constexpr char kDirectory[] = "/run/host/allocs/web/data";
  static constexpr char kLink[] = "/run/host/allocs/web/link";
  MakeDirectories(kDirectory);
  ASSERT_EQ(::symlink(kSecret, kLink), 0);
  Give("/run/host/allocs/web");
  Give(kDirectory);
  RuleConfig rule;
  rule.uids = {kAttacker};
  rule.alloc_roots = {"/run/host/allocs"};
  config_.rules.push_back(rule);
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.target_kind = exec::TargetKind::kDirectory;
  request.body.attach.caller.uid = kAttacker;
  {
    const Attacker attacker([] { Exchange(kDirectory, kLink); });
    int attached = 0;
    EXPECT_TRUE(Within([&] {
      fds_.clear();
      fds_.emplace_back(
          ::open(kDirectory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!fds_[0].valid()) {
        return false;
      }
      const Reply reply = Send(request);
      fds_.clear();
      EXPECT_FALSE(IsMountPoint(kSecret));
      if (reply.code == 0) {
        ++attached;
        EXPECT_TRUE(Within(
            [&] { return Detach(reply.body.mount.mount_id).code == 0; }));
      }
      return attached == kTimes || HasFailure();
    }));
    EXPECT_EQ(attached, kTimes);
    EXPECT_NAIVE(Within([&] {
      NaiveBind("/run/host/data", kDirectory);
      const bool hit = IsMountPoint(kSecret);
      for (const char* path : {kSecret, kDirectory, kLink}) {
        ::umount2(path, UMOUNT_NOFOLLOW);
      }
      return hit;
    }));
  }
}

TEST_F(Attacks, AReadOnlyMountIsAtNoTimeWritable) {
  ASSERT_EQ(::chmod("/run/host/data", 0777), 0);
  constexpr char kOpenTarget[] = "/run/mountd/base/a/open/app/data";
  const auto is_hit = [] { return Exists("/run/host/data/pwned"); };
  const auto write_at = [](const char* path) {
    const std::string file = std::string(path) + "/pwned";
    return [file] {
      const UniqueFd fd(
          ::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    };
  };
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.target = exec::Target("open", "app", "data");
  const auto detach = [&](const Reply& reply) {
    return Call(PlanKind::kDetach, [&](PlanBody* body) {
      body->detach = {exec::Target("open", "app", "data"),
                      reply.body.mount.mount_id};
    });
  };
  {
    const Attacker attacker(write_at(kOpenTarget));
    request.body.attach.attributes = exec::kReadOnly;
    for (int i = 0; i < kTimes; ++i) {
      const Reply reply = Send(request);
      ASSERT_EQ(ErrorOf(reply), "");
      ASSERT_TRUE(Within([&] { return detach(reply).code == 0; }));
    }
    EXPECT_FALSE(is_hit());
    // The same attacker writes to a mount that is not read-only, so it did try.
    request.body.attach.attributes = 0;
    const Reply reply = Send(request);
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_TRUE(Within(is_hit));
    ASSERT_TRUE(Within([&] { return detach(reply).code == 0; }));
  }
  ASSERT_EQ(::unlink("/run/host/data/pwned"), 0);
  const Attacker attacker(write_at(kNaiveTarget));
  EXPECT_NAIVE(Within([&] {
    NaiveBindReadOnly("/run/host/data", kNaiveTarget);
    ::umount2(kNaiveTarget, MNT_DETACH);
    return is_hit();
  }));
}

TEST_F(Attacks, AVolumePublishedAsALinkIsNotFollowed) {
  ASSERT_EQ(ErrorOf(Call(
                PlanKind::kPreparePlugin,
                [](PlanBody* body) { body->plugin = {exec::ToWire("csi")}; })),
            "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareVolumeDir,
                         [](PlanBody* body) {
                           body->volume_dir = exec::VolumeDirPlan{};
                           body->volume_dir.plugin = exec::ToWire("csi");
                           body->volume_dir.area = exec::VolumeArea::kPublish;
                           body->volume_dir.allocation = exec::ToWire("web");
                           body->volume_dir.volume.fill('a');
                         })),
            "");
  const std::string published = "/run/mountd/base/p/csi/publish/web/" +
                                std::string(VolumeKey::kHexDigits, 'a');
  Request request = AttachRequest("", Propagation::kPrivate);
  request.body.attach.source = exec::SourcePlan{};
  request.body.attach.source.kind = exec::SourceKind::kPublishedVolume;
  request.body.attach.source.plugin = exec::ToWire("csi");
  request.body.attach.source.volume.fill('a');
  for (const char* to : {kSecret, "/proc/self/root/run/host/secret",
                         "../../../../../../host/secret"}) {
    ASSERT_EQ(::symlink(to, published.c_str()), 0);
    const Inventory before = Inventory::Take();
    EXPECT_EQ(CodeOf(Send(request)), "InvalidArgument") << to;
    EXPECT_EQ(Difference(before, Inventory::Take()), "");
    ASSERT_EQ(
        ::mount(published.c_str(), kNaiveTarget, nullptr, MS_BIND, nullptr), 0);
    EXPECT_NAIVE(Exists(std::string(kNaiveTarget) + "/key"));
    NaiveUnmount(kNaiveTarget);
    ASSERT_EQ(::unlink(published.c_str()), 0);
  }
}

UniqueFd ListenAt(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(&address.sun_path[0], sizeof(address.sun_path) - 1);
  EXPECT_EQ(
      ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  EXPECT_EQ(::listen(fd.get(), 8), 0);
  return fd;
}

bool NaiveConnect(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ConnectUnix(fd.get(), path) == 0;
}

// True if a client has connected to it since the last call.
bool WasReached(const UniqueFd& listening) {
  const UniqueFd connection(
      ::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return connection.valid();
}

TEST_F(Attacks, APluginDoesNotSendUsToAnothersSocket) {
  const auto connect = [&] {
    return CodeOf(Call(PlanKind::kConnectPlugin, [](PlanBody* body) {
      body->plugin_socket =
          exec::PluginSocketPlan{exec::ToWire("csi"), InstanceKey().hex(), 0};
    }));
  };
  ASSERT_EQ(ErrorOf(Call(
                PlanKind::kPreparePlugin,
                [](PlanBody* body) { body->plugin = {exec::ToWire("csi")}; })),
            "");
  const std::string own = "/run/mountd/base/p/csi/csi.sock";
  const std::string others = "/run/host/other.sock";
  const UniqueFd listening = ListenAt(others);
  ASSERT_EQ(::fcntl(listening.get(), F_SETFL, O_NONBLOCK), 0);
  // The plugin puts a link in its socket's place, then a mount over a socket of
  // its own.
  ASSERT_EQ(::symlink(others.c_str(), own.c_str()), 0);
  EXPECT_EQ(connect(), "InvalidArgument");
  EXPECT_FALSE(WasReached(listening));
  EXPECT_NAIVE(NaiveConnect(own) && WasReached(listening));
  ASSERT_EQ(::unlink(own.c_str()), 0);

  const UniqueFd its = ListenAt(own);
  EXPECT_EQ(connect(), "");
  ASSERT_EQ(::mount(others.c_str(), own.c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(connect(), "FailedPrecondition");
  EXPECT_FALSE(WasReached(listening));
  EXPECT_NAIVE(NaiveConnect(own) && WasReached(listening));
  Unmount(own);
}

TEST_F(Attacks, AMountStackedOnOursIsNotTakenDownForIt) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  MountTmpfs(kTarget);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "FailedPrecondition");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
  NaiveUnmount(kTarget);
  EXPECT_NAIVE(!Exists(std::string(kTarget) + "/mark"));
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

// Root moves mountd's mount away and puts another mount in its place. The
// executor must not unmount that one.
TEST_F(Attacks, AMountThatTookOursPlaceIsNotTakenDownForIt) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  // A mount below a shared parent cannot be moved, so the parent becomes
  // private first.
  ASSERT_EQ(::mount(nullptr, "/run/mountd/base", nullptr, MS_PRIVATE, nullptr),
            0);
  ASSERT_EQ(::mount(kTarget, kNaiveTarget, nullptr, MS_MOVE, nullptr), 0);
  MountTmpfs(kTarget);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "FailedPrecondition");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
  NaiveUnmount(kTarget);
  EXPECT_NAIVE(!Exists(std::string(kTarget) + "/mark"));
  EXPECT_TRUE(Exists(std::string(kNaiveTarget) + "/file"));
}

// Fact: attaching below a shared parent makes the mount shared, whatever its
// propagation was.
TEST_F(Attacks, APrivateMountBelowASharedParentStaysPrivate) {
  const auto reaches_copy = [](const std::string& target) {
    const UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::unshare(CLONE_NEWNS), 0);
    const UniqueFd copy(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
    MountTmpfs(target + "/sub");
    EXPECT_EQ(::setns(copy.get(), CLONE_NEWNS), 0);
    const bool seen = Exists(target + "/sub/mark");
    EXPECT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
    Unmount(target + "/sub");
    return seen;
  };
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  EXPECT_FALSE(reaches_copy(kTarget));
  MountTmpfs("/run/shared");
  ASSERT_EQ(::mount(nullptr, "/run/shared", nullptr, MS_SHARED, nullptr), 0);
  MakeDirectories("/run/shared/naive");
  const UniqueFd tree(::open_tree(AT_FDCWD, "/run/host/real",
                                  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  struct mount_attr attributes = {};
  attributes.propagation = MS_PRIVATE;
  ASSERT_EQ(::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &attributes,
                            sizeof(attributes)),
            0);
  ASSERT_EQ(::move_mount(tree.get(), "", AT_FDCWD, "/run/shared/naive",
                         MOVE_MOUNT_F_EMPTY_PATH),
            0);
  MakeDirectories("/run/host/real/sub");
  EXPECT_NAIVE(reaches_copy("/run/shared/naive"));
}

// Fact: below a private parent, copied mount namespaces keep the volume after
// our unmount.
TEST_F(Attacks, ACopiedNamespaceDoesNotKeepAVolume) {
  MountTmpfs("/run/host/real/inner");
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_TRUE(NaiveBind("/run/host/data", kNaiveTarget));
  const UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  const UniqueFd copy(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  NaiveUnmount(kNaiveTarget);
  ASSERT_EQ(::setns(copy.get(), CLONE_NEWNS), 0);
  EXPECT_FALSE(Exists(std::string(kTarget) + "/file"));
  EXPECT_NAIVE(Exists(std::string(kNaiveTarget) + "/file"));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
}

// Fact: a slave of a private mount becomes private, and the kernel reports no
// error.
TEST_F(Attacks, APropagationThatCannotBeIsRefused) {
  ASSERT_EQ(::mount("tmpfs", "/run/host/data", "tmpfs", 0, nullptr), 0);
  MakeDirectories("/run/host/data/sub");
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kHostToTask)),
            "FailedPrecondition");
  ASSERT_TRUE(NaiveBind("/run/host/data", kNaiveTarget));
  ASSERT_EQ(::mount(nullptr, kNaiveTarget, nullptr, MS_SLAVE | MS_REC, nullptr),
            0);
  MountTmpfs("/run/host/data/sub");
  EXPECT_NAIVE(!Exists(std::string(kNaiveTarget) + "/sub/mark"));
}

}  // namespace
}  // namespace mountd::testing
