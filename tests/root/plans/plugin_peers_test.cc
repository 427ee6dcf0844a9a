// SPDX-License-Identifier: LGPL-2.1-or-later
// The process that listens on a plugin's socket, and the cgroup that it must be
// in.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "mountd/base/unix_socket.h"
#include "tests/root/cgroup_fixture.h"
#include "tests/support/naive.h"

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
  // Listens as the plugin's task would. The process holds the socket.
  static bool Listen() {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::string(kSocket).copy(&address.sun_path[0],
                              sizeof(address.sun_path) - 1);
    return ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
               0 &&
           ::listen(fd, 256) == 0;
  }
};

// Connects as a daemon without checks does, to any listener at the path.
bool NaiveConnect() {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  return ConnectUnix(fd.get(), kSocket) == 0;
}

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

// The executor accepts no peer that it could not check.
TEST_F(PluginPeers, EachCallThatFailsIsAnError) {
  const std::uint64_t web = MakeCgroup("web");
  Spawn("web", &Listen);
  ASSERT_EQ(ErrorOf(Connect(web)), "");
  last_fd_.reset();
  const Inventory before = Inventory::Take();
  for (const int error : exec::kErrorsOfAnyCall) {
    bool reached = true;
    for (std::size_t k = 1; reached; ++k) {
      kernel_.FailAt(k, error);
      const Reply reply = Connect(web);
      reached = kernel_.calls().size() >= k;
      SCOPED_TRACE("call " + std::to_string(k) + ": " +
                   (reached ? kernel_.calls()[k - 1] : "none") + ", errno " +
                   std::to_string(error));
      kernel_.FailAt(0, 0);
      EXPECT_EQ(reply.code != 0, reached);
      EXPECT_EQ(last_fd_.valid(), !reached);
      last_fd_.reset();
      EXPECT_EQ(Difference(before, Inventory::Take()), "");
    }
  }
  ExpectFailed({"ConnectUnix", "PeerOf", "PeerProcess"});
  const UniqueFd connected(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(ConnectUnix(connected.get(), kSocket), 0);
  if (!exec::FailedWith(real_.PeerProcess(connected.get()), ENOPROTOOPT)) {
    ExpectFailed({"HasEnded"});  // SO_PEERPIDFD: Linux 6.5
  }
}

TEST_F(PluginPeers, OneOutsideIsRefused) {
  const std::uint64_t web = MakeCgroup("web");
  SpawnOutside(&Listen);
  EXPECT_EQ(CodeOf(Connect(web)), "PermissionDenied");
  EXPECT_NAIVE(NaiveConnect());
}

// Returns a copy of the process's listening socket, which outlives the process.
UniqueFd Keep(const UniqueFd& process) {
  for (int fd = 3; fd < 64; ++fd) {
    UniqueFd copy(
        static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
    int accepts = 0;
    socklen_t size = sizeof(accepts);
    if (copy.valid() &&
        ::getsockopt(copy.get(), SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) ==
            0 &&
        accepts != 0) {
      return copy;
    }
  }
  return UniqueFd();
}

// An ended process is only a pid, which another process may get.
TEST_F(PluginPeers, OneThatHasEndedIsRefused) {
  const std::uint64_t web = MakeCgroup("web");
  Child& maker = Spawn("web", &Listen);
  const UniqueFd kept = Keep(maker.pidfd);
  ASSERT_TRUE(kept.valid());
  EXPECT_EQ(ErrorOf(Connect(web)), "");
  End(maker);
  EXPECT_EQ(CodeOf(Connect(web)), "PermissionDenied");
  EXPECT_NAIVE(NaiveConnect());
}

// The listener is outside the cgroup. Later a process of the allocation gets
// its pid.
TEST_F(PluginPeers, AnotherWithItsNumberIsNotIt) {
  const std::uint64_t web = MakeCgroup("web");
  Child& maker = SpawnOutside(&Listen);
  const UniqueFd kept = Keep(maker.pidfd);
  ASSERT_TRUE(kept.valid());
  UniqueFd connected(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(ConnectUnix(connected.get(), kSocket), 0);
  if (exec::FailedWith(real_.PeerProcess(connected.get()), ENOPROTOOPT)) {
    GTEST_SKIP() << "SO_PEERPIDFD: Linux 6.5";
  }
  const pid_t number = maker.pid;
  End(maker);
  bool taken = false;
  // Other processes may take the pid first.
  for (int i = 0; i < 100 && !taken; ++i) {
    std::ofstream("/proc/sys/kernel/ns_last_pid") << number - 1;
    taken = Spawn("web", [] { return true; }).pid == number;
  }
  if (!taken) {
    GTEST_SKIP() << "the number cannot be had again";
  }
  EXPECT_EQ(CodeOf(Connect(web)), "PermissionDenied");
  // The kernel still reports the pid, which a member of the cgroup has now.
  ucred peer = {};
  socklen_t size = sizeof(peer);
  ASSERT_EQ(
      ::getsockopt(connected.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
  EXPECT_NAIVE(peer.pid == number);
}

TEST_F(PluginPeers, ACgroupThatNoRuleGrantsIsOfNoHelp) {
  const std::uint64_t web = MakeCgroup("web");
  Spawn("web", &Listen);
  config_.rules.back().cgroups = {top() + "/other"};
  EXPECT_EQ(CodeOf(Connect(web)), "PermissionDenied");
  EXPECT_NAIVE(NaiveConnect());
}

}  // namespace
}  // namespace mountd::testing
