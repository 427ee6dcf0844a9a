// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The leak check finds open fds of each daemon.
#include "tests/support/node/daemon_fds.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

// Owns a process with a daemon's name that opens fds and closes none.
class LeakingDaemon {
 public:
  explicit LeakingDaemon(const char* name) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) !=
        0) {
      return;
    }
    control_.reset(ends[0]);
    const UniqueFd child_end(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_NAME, name);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      Run(child_end.get());
    }
    Await();
  }
  ~LeakingDaemon() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  LeakingDaemon(const LeakingDaemon&) = delete;
  LeakingDaemon& operator=(const LeakingDaemon&) = delete;

  // Makes the process open one more socket, event fd and file.
  void Leak() {
    const char order = 1;
    ASSERT_EQ(::write(control_.get(), &order, 1), 1);
    Await();
  }

 private:
  [[noreturn]] static void Run(int control) {
    const char done = 1;
    char order = 0;
    do {
      if (::write(control, &done, 1) != 1) {
        break;
      }
    } while (::read(control, &order, 1) == 1 &&
             ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0 && ::eventfd(0, 0) >= 0 &&
             ::open("/etc/passwd", O_RDONLY) >= 0);
    ::_exit(1);
  }
  void Await() {
    char done = 0;
    ASSERT_EQ(::read(control_.get(), &done, 1), 1);
  }

  UniqueFd control_;
  pid_t pid_ = -1;
};

class DaemonFdsOf : public PrivateNamespaces,
                    public ::testing::WithParamInterface<const char*> {};

TEST_P(DaemonFdsOf, AreSeen) {
  const std::string name = GetParam();
  LeakingDaemon daemon(GetParam());
  const DaemonFds before = TakeDaemonFds();
  EXPECT_GT(before.size(), 0U);
  EXPECT_EQ(MoreFds(before, TakeDaemonFds()), "");
  constexpr int kOperations = 12;
  for (int i = 0; i < kOperations; ++i) {
    ASSERT_NO_FATAL_FAILURE(daemon.Leak());
  }
  const std::string more = MoreFds(before, TakeDaemonFds());
  for (const char* kind : {" socket: ", " anon_inode:[eventfd]: ", " file: "}) {
    EXPECT_NE(more.find("+ fds of " + name + kind), std::string::npos) << more;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DaemonFdsOf,
                         ::testing::Values("mountd", "mountd-closer",
                                           "mountd-exec", "mountd-csi",
                                           "csi-local"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

class NodeDaemonFds : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (!IsSkipped()) {
      ASSERT_NO_FATAL_FAILURE(StartNode("[[rule]]\nusers = [\"agent\"]\n"));
      ASSERT_EQ(MessageOf(client_->GetCapabilities()), "Ok");
    }
  }
};

// A caller can make mountd hold fds by its connections.
TEST_F(NodeDaemonFds, OfConnectionsAreSeenWhileTheyLast) {
  const DaemonFds before = TakeDaemonFds();
  EXPECT_GT(before.at("mountd socket"), 0);
  {
    std::vector<agent::Client> clients;
    constexpr int kClients = 12;
    for (int i = 0; i < kClients; ++i) {
      auto client = node_->Connect();
      ASSERT_TRUE(client) << client.error().Message();
      clients.push_back(*std::move(client));
    }
    EXPECT_NE(MoreFds(before, TakeDaemonFds()).find("+ fds of mountd socket: "),
              std::string::npos);
  }
  EXPECT_TRUE(
      Eventually([&] { return MoreFds(before, TakeDaemonFds()).empty(); }));
}

}  // namespace
}  // namespace mountd::testing
