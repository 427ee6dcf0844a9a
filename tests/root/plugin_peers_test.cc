// SPDX-License-Identifier: LGPL-2.1-or-later
// Who listens on a plugin's socket, and where that has to be.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/root/cgroup_fixture.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Reply;
using exec::ToWire;

constexpr char kSocket[] = "/run/mountd/base/p/csi/csi.sock";

class PluginPeers : public CgroupFixture {
 protected:
  void SetUp() override {
    CgroupFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    ASSERT_EQ(
        ErrorOf(Call(PlanKind::kPreparePlugin,
                     [](PlanBody* body) { body->plugin = {ToWire("csi")}; })),
        "");
  }
  Reply Connect(std::uint64_t cgroup) {
    return Call(PlanKind::kConnectPlugin, [&](PlanBody* body) {
      body->plugin_socket =
          exec::PluginSocketPlan{ToWire("csi"), InstanceKey().hex(), cgroup};
    });
  }
  // As what the plugin's task would run; the socket stays with its process.
  static bool Listen() {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::string(kSocket).copy(&address.sun_path[0],
                              sizeof(address.sun_path) - 1);
    return ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
               0 &&
           ::listen(fd, 4) == 0;
  }
};

TEST_F(PluginPeers, AreInTheAllocationsCgroupOrBeneath) {
  const std::uint64_t web = MakeCgroup("web");
  MakeCgroup("web/task");
  const std::uint64_t api = MakeCgroup("api");
  const Child& plugin = Spawn("web/task", &Listen);
  const Reply reply = Connect(web);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.plugin.peer_pid, static_cast<unsigned>(plugin.pid));
  EXPECT_EQ(CodeOf(Connect(api)), "PermissionDenied");
  EXPECT_FALSE(last_fd_.valid());
  EXPECT_EQ(ErrorOf(Connect(0)), "");
}

TEST_F(PluginPeers, OneOutsideIsRefused) {
  const std::uint64_t web = MakeCgroup("web");
  SpawnOutside(&Listen);
  EXPECT_EQ(CodeOf(Connect(web)), "PermissionDenied");
}

// It is no more than a number then, which another may get.
TEST_F(PluginPeers, OneThatHasEndedIsRefused) {
  const std::uint64_t web = MakeCgroup("web");
  int listening = -1;
  Child& maker = Spawn("web", &Listen);
  // What others hold of a socket keeps it.
  for (int fd = 3; fd < 64 && listening < 0; ++fd) {
    const int copy =
        static_cast<int>(::syscall(SYS_pidfd_getfd, maker.pidfd.get(), fd, 0));
    int accepts = 0;
    socklen_t size = sizeof(accepts);
    if (copy >= 0 &&
        ::getsockopt(copy, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 &&
        accepts != 0) {
      listening = copy;
    } else if (copy >= 0) {
      ::close(copy);
    }
  }
  const UniqueFd kept(listening);
  ASSERT_TRUE(kept.valid());
  EXPECT_EQ(ErrorOf(Connect(web)), "");
  End(maker);
  EXPECT_EQ(CodeOf(Connect(web)), "PermissionDenied");
}

TEST_F(PluginPeers, ACgroupThatNoRuleGrantsIsOfNoHelp) {
  const std::uint64_t web = MakeCgroup("web");
  Spawn("web", &Listen);
  config_.rules.back().cgroups = {top() + "/other"};
  EXPECT_EQ(CodeOf(Connect(web)), "PermissionDenied");
}

}  // namespace
}  // namespace mountd::testing
