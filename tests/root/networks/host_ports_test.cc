// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A host port on which a socket of the host listens is not mapped.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mountd/kernel/nft_command.h"
#include "netns/plans/host_sockets.h"
#include "tests/root/attacker.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanKind;
using netns::HostIp;

constexpr std::uint16_t kPort = 18080;

using FoundSockets = std::vector<netns::HostSocket>;

Result<FoundSockets> SocketsOn(exec::Kernel& kernel, std::uint8_t protocol,
                               std::uint16_t first, std::uint16_t last) {
  std::optional<netns::Channel> diag;
  FoundSockets sockets;
  MOUNTD_TRY(netns::FindHostSockets(
      kernel, &diag, protocol, first, last,
      [&](const netns::HostSocket& socket) { sockets.push_back(socket); }));
  return sockets;
}

// Owns a socket bound to an address of the host.
class Bound {
 public:
  Bound(const std::string& address, std::uint16_t port, int type,
        bool ipv6_alone = false) {
    const bool ipv6 = address.find(':') != std::string::npos;
    socket_.reset(::socket(ipv6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    sockaddr_in6 to{};
    socklen_t size = sizeof(to);
    if (ipv6) {
      const int alone = ipv6_alone ? 1 : 0;
      ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &alone,
                   sizeof(alone));
      to.sin6_family = AF_INET6;
      to.sin6_port = htons(port);
      ::inet_pton(AF_INET6, address.c_str(), &to.sin6_addr);
    } else {
      auto* ipv4 = reinterpret_cast<sockaddr_in*>(&to);
      ipv4->sin_family = AF_INET;
      ipv4->sin_port = htons(port);
      ::inet_pton(AF_INET, address.c_str(), &ipv4->sin_addr);
      size = sizeof(*ipv4);
    }
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&to), size), 0)
        << address;
  }
  Bound& Listen() {
    EXPECT_EQ(::listen(socket_.get(), 1), 0);
    return *this;
  }
  void ConnectToItself() {
    sockaddr_in6 to{};
    socklen_t size = sizeof(to);
    auto* any = reinterpret_cast<sockaddr*>(&to);
    EXPECT_EQ(::getsockname(socket_.get(), any, &size), 0);
    EXPECT_EQ(::connect(socket_.get(), any, size), 0);
  }
  int fd() const { return socket_.get(); }

 private:
  UniqueFd socket_;
};

// The interface by which the executor asks the kernel for sockets.
enum class Way { kDiag, kTables };

class HostPorts : public Networks, public ::testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    kernel_.HideSocketDiag(GetParam() == Way::kTables);
    kernel_.HideSocketTables(GetParam() == Way::kDiag);
    Networks::SetUp();
  }
  // Deletes the network; the second plan deletes the link at once.
  void DeleteTwice(const NetworkPlan& plan) {
    Delete(plan);
    Delete(plan);
  }
  // Returns the answer to a map of the port at the host's address.
  exec::Reply Map(const std::string& address, std::uint8_t protocols) {
    NetworkPlan plan = Plan("web", 2, kPort);
    const HostIp ip = netns::ParseHostIp(address).value();
    plan.ports[0].protocols = protocols;
    plan.ports[0].host_family = static_cast<std::uint8_t>(ip.family);
    plan.ports[0].host_address = ip.bytes;
    exec::Reply asked = Do(PlanKind::kCheckHostPorts, plan);
    exec::Reply made = Do(PlanKind::kCreateNetwork, plan);
    EXPECT_EQ(ErrorOf(asked), ErrorOf(made));
    DeleteTwice(plan);
    return made;
  }
  std::string CodeOfMap(const std::string& address,
                        std::uint8_t protocols = exec::kTcp) {
    return CodeOf(Map(address, protocols));
  }
};

// The socket is bound to one port of a row, so none of the row is mapped.
TEST_P(HostPorts, UdpIsLeftOutWhereASocketHasItAndThePlanSaysSo) {
  NetworkPlan plan = Plan("web", 2, kPort);
  plan.port_count = 2;
  plan.ports[0].if_free = exec::kUdp;
  plan.ports[0].count = 2;
  plan.ports[1] = plan.ports[0];
  plan.ports[1].host_port = kPort + 8;
  {
    const Bound udp("127.0.0.1", kPort + 1, SOCK_DGRAM);
    const exec::NetworkState made = Create(plan);
    EXPECT_EQ(made.unmapped[0], exec::kUdp);
    EXPECT_EQ(made.unmapped[1], 0U);
  }
  // The same plan again answers with what is there, though the port is free.
  const exec::NetworkState again = Create(plan);
  EXPECT_EQ(again.unmapped[0], exec::kUdp);
  EXPECT_EQ(again.unmapped[1], 0U);
  NetworkPlan mapped = plan;
  mapped.ports[0].protocols = exec::kTcp;
  mapped.ports[0].if_free = 0;
  EXPECT_EQ(StateOf(mapped).elements_present, 1U);
  EXPECT_EQ(StateOf(plan).elements_present, 0U);
  // Another allocation gets the port, and keeps it when this network goes.
  NetworkPlan other = Plan("db", 3, kPort);
  other.ports[0].protocols = exec::kUdp;
  Create(other);
  DeleteTwice(plan);
  EXPECT_EQ(StateOf(other).elements_present, 1U);
  DeleteTwice(other);
  // Without the mark the socket refuses the whole plan.
  const Bound udp("127.0.0.1", kPort + 1, SOCK_DGRAM);
  plan.ports[0].if_free = 0;
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, plan)), "AlreadyExists");
}

TEST_P(HostPorts, AreTakenAtTheAddressesWhereASocketListens) {
  struct Case {
    const char* bound;
    bool ipv6_alone;
    std::vector<const char*> taken;
    std::vector<const char*> free;
  };
  for (const Case& one : std::vector<Case>{
           {"0.0.0.0", false, {"", "0.0.0.0", "10.88.0.1"}, {"::"}},
           {"127.0.0.1", false, {"", "0.0.0.0", "127.0.0.1"}, {"::"}},
           {"127.0.0.1", false, {}, {"10.88.0.1"}},
           {"::", false, {"", "0.0.0.0", "::", "10.88.0.1", "fd88::1"}, {}},
           {"::1", false, {"", "::"}, {"0.0.0.0", "fd88::1"}},
           {"::ffff:127.0.0.1", false, {"", "127.0.0.1"}, {"::", "10.88.0.1"}},
       }) {
    SCOPED_TRACE(one.bound);
    Bound bound(one.bound, kPort, SOCK_STREAM, one.ipv6_alone);
    bound.Listen();
    for (const char* address : one.taken) {
      EXPECT_EQ(CodeOfMap(address), "AlreadyExists") << address;
    }
    for (const char* address : one.free) {
      EXPECT_EQ(CodeOfMap(address), "") << address;
    }
  }
  EXPECT_EQ(CodeOfMap(""), "");
}

TEST_P(HostPorts, OfIpv6AloneAreFreeForIpv4WhereTheKernelSaysSo) {
  const Bound bound("::", kPort, SOCK_STREAM, /*ipv6_alone=*/true);
  ::listen(bound.fd(), 1);
  EXPECT_EQ(CodeOfMap("::"), "AlreadyExists");
  // The tables do not tell whether an IPv6 socket takes IPv4, so the executor
  // assumes that it does.
  EXPECT_EQ(CodeOfMap("0.0.0.0"),
            GetParam() == Way::kDiag ? "" : "AlreadyExists");
}

TEST_P(HostPorts, OfOneProtocolAreFreeForTheOther) {
  {
    Bound bound("0.0.0.0", kPort, SOCK_STREAM);
    EXPECT_EQ(CodeOfMap("", exec::kTcp), "");  // no socket listens yet
    bound.Listen();
    EXPECT_EQ(CodeOfMap("", exec::kTcp), "AlreadyExists");
    EXPECT_EQ(CodeOfMap("", exec::kUdp), "");
    EXPECT_EQ(CodeOfMap("", exec::kTcp | exec::kUdp), "AlreadyExists");
  }
  Bound bound("127.0.0.1", kPort, SOCK_DGRAM);
  EXPECT_EQ(CodeOfMap("", exec::kUdp), "AlreadyExists");
  EXPECT_EQ(CodeOfMap("", exec::kTcp), "");
  bound.ConnectToItself();  // a connected socket receives from its peer alone
  EXPECT_EQ(CodeOfMap("", exec::kUdp), "");
}

TEST_P(HostPorts, AreAllOfTheRangesThatAreAskedFor) {
  constexpr std::uint16_t kInRange = 20100;
  Bound bound("0.0.0.0", kInRange, SOCK_STREAM);
  bound.Listen();
  const auto map = [&](std::uint16_t first, std::uint16_t count) {
    NetworkPlan plan = Plan("web", 2, first);
    plan.ports[0].count = count;
    // A second map is far from the range.
    plan.port_count = 2;
    plan.ports[1] = {18080, 80, exec::kTcp, 0};
    exec::Reply reply = Do(PlanKind::kCreateNetwork, plan);
    DeleteTwice(plan);
    return CodeOf(reply);
  };
  EXPECT_EQ(map(kInRange - 2, 3), "AlreadyExists");
  EXPECT_EQ(map(kInRange, 3), "AlreadyExists");
  EXPECT_EQ(map(kInRange - 1, 3), "AlreadyExists");
  EXPECT_EQ(map(kInRange - 3, 3), "");
  EXPECT_EQ(map(kInRange + 1, 3), "");
}

TEST_P(HostPorts, AnAnswerSaysWhereItListensAndHowToFindWhoseItIs) {
  Bound bound("127.0.0.1", kPort, SOCK_STREAM);
  bound.Listen();
  const Inventory before = Inventory::Take();
  NetworkPlan plan = Plan("web", 2, kPort);
  const exec::Reply reply = Do(PlanKind::kCreateNetwork, plan);
  EXPECT_EQ(reply.sys_errno, EADDRINUSE);
  for (const char* part : {"host port 18080/tcp", "127.0.0.1:18080", "uid 0",
                           "ss -lnpt 'sport = :18080'"}) {
    EXPECT_NE(ErrorOf(reply).find(part), std::string::npos)
        << part << ": " << ErrorOf(reply);
  }
  EXPECT_EQ(DifferenceWithin(before, 20), "");
}

INSTANTIATE_TEST_SUITE_P(By, HostPorts,
                         ::testing::Values(Way::kDiag, Way::kTables),
                         [](const auto& each) {
                           return each.param == Way::kDiag ? "Diag" : "Tables";
                         });

class HostPortsUnknown : public Networks {
 protected:
  void SetUp() override {
    kernel_.HideSocketDiag();
    kernel_.HideSocketTables();
    Networks::SetUp();
  }
};

TEST_F(HostPortsUnknown, AreNotTakenForFree) {
  const Inventory before = Inventory::Take();
  const exec::Reply reply = Do(PlanKind::kCreateNetwork, Plan("web", 2, kPort));
  EXPECT_EQ(CodeOf(reply), "FailedPrecondition") << ErrorOf(reply);
  EXPECT_EQ(reply.sys_errno, EACCES);
  EXPECT_NE(ErrorOf(reply).find("tcp_diag"), std::string::npos);
  EXPECT_EQ(DifferenceWithin(before, 20), "");
  // The executor asks for no sockets if the network has no ports.
  NetworkPlan plan = Plan("web", 2, kPort);
  plan.port_count = 0;
  EXPECT_EQ(ErrorOf(Do(PlanKind::kCreateNetwork, plan)), "");
  Delete(plan);
}

// The kernel reports a missing module at the end of a dump: inet_diag does not
// know this protocol, or has no such sockets.
TEST_F(HostPortsUnknown, ADumpThatFailsIsNoDumpWithoutSockets) {
  constexpr std::uint8_t kNoProtocol = 200;
  kernel_.HideSocketDiag(false);
  EXPECT_FALSE(SocketsOn(kernel_, kNoProtocol, 1, 65535).has_value());
  EXPECT_TRUE(SocketsOn(kernel_, IPPROTO_TCP, 1, 65535).has_value());
}

// ---- Attacks ----------------------------------------------------------------

class HostPortAttacks : public Networks {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (!IsSkipped()) {
      auto made = real_.NewNetNamespace();
      ASSERT_TRUE(made.has_value());
      other_ = std::move(made->fd);
    }
  }
  // Returns the path of a sandbox's network namespace, in which no process is.
  std::string PathOfOwnNetns() const {
    return "/proc/self/fd/" + std::to_string(other_.get());
  }
  // Maps the port as a naive executor does, without asking who listens there.
  // True if the allocation's process then gets the port's connections.
  bool NaiveMapTakesOver() {
    NetworkPlan plan = Plan("web", 2, kPort);
    plan.port_count = 0;
    Create(plan);
    Nft("add element inet mountd pm4 { tcp . 18080 : 10.88.0.2 . 80 }");
    bool taken = false;
    {
      const Server attacker(kWebNetns, 80, "attacker");
      taken = Ask("127.0.0.1", kPort) == "attacker";
    }
    Nft("delete element inet mountd pm4 { tcp . 18080 : 10.88.0.2 . 80 }");
    Delete(plan);
    Delete(plan);
    return taken;
  }
  UniqueFd other_;
  static void Nft(const std::string& command) {
    ASSERT_TRUE(exec::RunNftCommand(command).has_value()) << command;
  }
};

// A sandbox with a network namespace of its own, as mountd's unit has, would
// ask there, and find no listener.
TEST_F(HostPortAttacks, AServiceOfTheHostIsNotTakenOver) {
  const Server service(kHostNetns, kPort, "service");
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, Plan("web", 2, kPort))),
            "AlreadyExists");
  for (const char* address : {"127.0.0.1", "10.88.0.1", "fd88::1", "::1"}) {
    EXPECT_EQ(Ask(address, kPort), "service") << address;
  }
  const std::string seen = TextFrom(PathOfOwnNetns(), [&]() -> std::string {
    exec::RealKernel kernel;
    const auto found = SocketsOn(kernel, IPPROTO_TCP, kPort, kPort);
    return !found ? found.error().Message() : std::to_string(found->size());
  });
  EXPECT_NAIVE(seen == "0" && NaiveMapTakesOver());
}

// Owns a process that holds a socket of the host, and waits.
class Keeper {
 public:
  // Runs `before` in the child as root, or as `uid` if `makes_it_as_user`; the
  // child then is `uid` in either case.
  Keeper(uid_t uid, const std::function<std::vector<int>()>& before,
         bool makes_it_as_user) {
    int ready[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::vector<int> held;
      if (!makes_it_as_user) {
        held = before();
      }
      const bool became =
          uid == 0 || ::syscall(SYS_setresuid, uid, uid, uid) == 0;
      if (makes_it_as_user) {
        held = before();
      }
      const char ok = became ? 1 : 0;
      (void)!::write(ready[1], &ok, 1);
      for (;;) {
        ::pause();
      }
    }
    ::close(ready[1]);
    char ok = 0;
    EXPECT_EQ(::read(ready[0], &ok, 1), 1);
    EXPECT_EQ(ok, 1);
    ::close(ready[0]);
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~Keeper() { End(); }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  void End() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  int pidfd() const { return pidfd_.get(); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

// The functions below are naive ways to tell that a process has the port. This
// one is true if the process has a socket that listens there.
bool Listens(pid_t pid) {
  exec::RealKernel kernel;
  const auto found = SocketsOn(kernel, IPPROTO_TCP, kPort, kPort);
  std::set<std::string> sockets;
  for (const netns::HostSocket& one : found.value()) {
    sockets.insert("socket:[" + std::to_string(one.inode) + "]");
  }
  const std::string fds = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& fd : std::filesystem::directory_iterator(fds)) {
    if (sockets.contains(std::filesystem::read_symlink(fd.path()))) {
      return true;
    }
  }
  return false;
}

// Returns the real uid of the process, which is the user who started it.
uid_t UserOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    if (uid_t uid = 0; word == "Uid:" && status >> uid) {
      return uid;
    }
  }
  return ~uid_t{0};
}

std::vector<int> ListenOn(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 ||
      ::listen(fd, 1) != 0) {
    ::_exit(1);
  }
  return {fd};
}

class KeptPorts : public HostPortAttacks {
 protected:
  // Sends the plan for `uid`, with the keeper's fd.
  exec::Reply Map(uid_t uid, int keeper) {
    NetworkPlan plan = Plan("web", 2, kPort);
    plan.owner_uid = uid;
    plan.has_keeper = 1;
    exec::Reply reply;
    for (const PlanKind kind :
         {PlanKind::kCheckHostPorts, PlanKind::kCreateNetwork}) {
      fds_.clear();
      fds_.emplace_back(::fcntl(keeper, F_DUPFD_CLOEXEC, 0));
      const exec::Reply other = Do(kind, plan);
      if (kind == PlanKind::kCreateNetwork) {
        EXPECT_EQ(ErrorOf(other), ErrorOf(reply));
      }
      reply = other;
    }
    fds_.clear();
    Delete(plan);
    Delete(plan);
    return reply;
  }
};

TEST_F(KeptPorts, AreMappedForTheUserWhoseProcessKeepsThem) {
  const auto listen = [] { return ListenOn(kPort); };
  for (const uid_t uid : {kAttacker, uid_t{0}}) {
    SCOPED_TRACE(uid);
    const Keeper keeper(uid, listen, /*makes_it_as_user=*/true);
    EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, Plan("web", 2, kPort))),
              "AlreadyExists");
    EXPECT_EQ(ErrorOf(Map(uid, keeper.pidfd())), "");
  }
}

// If the user's uid, or any process of the user, were enough, a container of
// root's could take over every daemon of root's.
TEST_F(KeptPorts, OfAnotherProcessOfTheSameUserAreNot) {
  const auto listen = [] { return ListenOn(kPort); };
  const Keeper service(0, listen, true);
  const Keeper keeper(
      0, [] { return ListenOn(kPort + 1); }, true);
  EXPECT_EQ(CodeOf(Map(0, keeper.pidfd())), "AlreadyExists");
  const auto found = SocketsOn(real_, IPPROTO_TCP, kPort, kPort);
  ASSERT_TRUE(found.has_value() && found->size() == 1);
  EXPECT_NAIVE(found->front().uid == UserOf(keeper.pid()) &&
               NaiveMapTakesOver());
}

TEST_F(KeptPorts, OfAnotherUserAreNot) {
  const auto listen = [] { return ListenOn(kPort); };
  const Keeper roots(0, listen, true);
  // The attacker may not name a process of root's. Root's socket in a process
  // of the attacker's does not belong to the attacker either.
  EXPECT_EQ(CodeOf(Map(kAttacker, roots.pidfd())), "PermissionDenied");
  EXPECT_NAIVE(Listens(roots.pid()) && NaiveMapTakesOver());
  const Keeper heir(kAttacker, listen, /*makes_it_as_user=*/false);
  EXPECT_EQ(CodeOf(Map(kAttacker, heir.pidfd())), "AlreadyExists");
  EXPECT_NAIVE(UserOf(heir.pid()) == kAttacker && Listens(heir.pid()) &&
               NaiveMapTakesOver());
}

// Both processes have the port by SO_REUSEPORT, and each gets a part of the
// connections.
TEST_F(KeptPorts, OfOneOfTwoProcessesThatListenAreNot) {
  const auto listen = [] { return ListenOn(kPort); };
  const Keeper first(kAttacker, listen, true);
  {
    const Keeper second(kAttacker, listen, true);
    EXPECT_EQ(CodeOf(Map(kAttacker, first.pidfd())), "AlreadyExists");
    EXPECT_EQ(CodeOf(Map(kAttacker, second.pidfd())), "AlreadyExists");
    EXPECT_NAIVE(UserOf(first.pid()) == kAttacker && Listens(first.pid()) &&
                 NaiveMapTakesOver());
  }
  EXPECT_EQ(ErrorOf(Map(kAttacker, first.pidfd())), "");
}

// The attacker starts a program that the kernel makes root's.
TEST_F(KeptPorts, OfASetuidProgramAreNot) {
  const Keeper keeper(
      0,
      [] {
        std::vector<int> held = ListenOn(kPort);
        ::syscall(SYS_setresuid, kAttacker, 0, 0);
        return held;
      },
      true);
  EXPECT_EQ(CodeOf(Map(kAttacker, keeper.pidfd())), "PermissionDenied");
  EXPECT_NAIVE(UserOf(keeper.pid()) == kAttacker && Listens(keeper.pid()) &&
               NaiveMapTakesOver());
}

TEST_F(KeptPorts, NeedAPidfdOfAProcessThatLives) {
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(CodeOf(Map(kAttacker, file.get())), "InvalidArgument");
  Keeper keeper(
      kAttacker, [] { return ListenOn(kPort); }, true);
  const pid_t number = keeper.pid();
  const bool was_the_users = UserOf(number) == kAttacker;
  keeper.End();
  EXPECT_EQ(CodeOf(Map(kAttacker, keeper.pidfd())), "FailedPrecondition");
  // The pid alone now leads to a service of the host.
  const pid_t again = SpawnAs(number, [] { return !ListenOn(kPort).empty(); });
  EXPECT_NAIVE(was_the_users && Listens(number) && NaiveMapTakesOver());
  ::kill(again, SIGKILL);
  ::waitpid(again, nullptr, 0);
}

}  // namespace
}  // namespace mountd::testing
