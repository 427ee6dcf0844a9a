// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by a symbolic link that takes the place of a source, a target, a
// volume or a socket, also by a swap after the executor's check; as in
// attacks_test.cc.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "mountd/base/unix_socket.h"
#include "tests/root/attacks/attacks_test.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

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

}  // namespace
}  // namespace mountd::testing
