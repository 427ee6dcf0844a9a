// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "tests/root/attacker.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/root/unshared.h"
#include "tests/support/naive.h"
#include "tests/support/net_probe.h"
#include "tests/support/servers/fuse_server.h"

// The namespaces of networks: those that the executor makes, those that a
// caller passes, and those of earlier networks.
namespace mountd::testing {
namespace {

using exec::NamespaceOrigin;
using exec::NetworkPlan;
using exec::PlanKind;
using exec::ToWire;

std::uint64_t InodeOf(int fd) {
  struct stat st = {};
  EXPECT_EQ(::fstat(fd, &st), 0);
  return st.st_ino;
}

std::string PathOf(const UniqueFd& fd) {
  return "/proc/self/fd/" + std::to_string(fd.get());
}

// Returns "lo up\neth0 down\n".
std::string LinksHere() {
  std::string text;
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  struct if_nameindex* links = ::if_nameindex();
  for (auto* link = links; link != nullptr && link->if_index != 0; ++link) {
    ifreq request = {};
    std::string(link->if_name).copy(&request.ifr_name[0], IFNAMSIZ - 1);
    ::ioctl(socket.get(), SIOCGIFFLAGS, &request);
    text += std::string(link->if_name) +
            ((request.ifr_flags & IFF_UP) != 0 ? " up\n" : " down\n");
  }
  ::if_freenameindex(links);
  return text;
}

std::string LinksIn(const std::string& netns) {
  return TextFrom(netns, LinksHere);
}

class NetworkHomes : public Networks {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (IsSkipped()) {
      return;
    }
    NetworkConfig back;
    back.ipv4 = {netns::ParseIpv4Range("10.99.0.0/16").value()};
    back.ipv6 = {netns::ParseIpv6Range("fd99::/64").value()};
    config_.networks["back"] = back;
    ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
    // A process of the test stands for the machine's first one, which an LSM
    // may hide from tests.
    ASSERT_TRUE(first_process_.valid());
    ASSERT_EQ(::mount(first_process_.proc().c_str(), "/proc/1", nullptr,
                      MS_BIND, nullptr),
              0);
    before_ = Inventory::Take();
  }

  static NetworkPlan Alone(NamespaceOrigin origin) {
    NetworkPlan plan;
    plan.allocation = ToWire("web");
    plan.origin = origin;
    return plan;
  }
  static NetworkPlan Opening(std::uint64_t inode) {
    NetworkPlan plan = Alone(NamespaceOrigin::kExisting);
    plan.netns_inode = inode;
    return plan;
  }
  // Returns the plan of the attacker, an ordinary user.
  static NetworkPlan PlanGiven(const std::string& allocation = "web") {
    NetworkPlan plan = Plan(allocation, 2, 18080);
    plan.origin = NamespaceOrigin::kGiven;
    plan.owner_uid = kAttacker;
    return plan;
  }
  // Sends this fd with each later request; an invalid fd ends that.
  void PutBeside(const UniqueFd& fd) {
    fds_.clear();
    if (fd.valid()) {
      fds_.emplace_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    }
  }
  exec::Reply CreateGiven(NetworkPlan plan, const UniqueFd& fd) {
    PutBeside(fd);
    plan.netns_inode =
        plan.netns_inode == 0 ? InodeOf(fd.get()) : plan.netns_inode;
    exec::Reply reply = Do(PlanKind::kCreateNetwork, plan);
    PutBeside(UniqueFd());
    return reply;
  }
  // Expects that the plan is refused and leaves nothing.
  void ExpectRefused(const NetworkPlan& plan, const UniqueFd& fd,
                     const std::string& code) {
    ASSERT_TRUE(fd.valid()) << errno;
    const Inventory before = Inventory::Take();
    const exec::Reply reply = CreateGiven(plan, fd);
    EXPECT_EQ(CodeOf(reply), code) << ErrorOf(reply);
    EXPECT_EQ(Difference(before, Inventory::Take()), "");
  }

  // A process in a network namespace of its own that stands for the machine's
  // first process.
  const Unshared first_process_{[] { return ::unshare(CLONE_NEWNET) == 0; }};
};

TEST_F(NetworkHomes, ANamespaceAloneHasItsLoopbackUpAndNothingElse) {
  const NetworkPlan plan = Alone(NamespaceOrigin::kNew);
  const exec::NetworkState state = Create(plan);
  EXPECT_NE(state.netns_inode, 0U);
  EXPECT_EQ(state.host_ifindex, 0U);
  EXPECT_EQ(StateOf(plan).netns_inode, state.netns_inode);
  std::string fresh;
  {
    const auto other = real_.NewNetNamespace();
    ASSERT_TRUE(other.has_value());
    fresh = LinksIn(PathOf(other->fd));
  }
  EXPECT_EQ(fresh.substr(0, 8), "lo down\n");
  EXPECT_EQ(LinksIn(kWebNetns), "lo up\n" + fresh.substr(8));
  {
    const Server server(kWebNetns, 80, "hello");
    EXPECT_EQ(AskFrom(kWebNetns, "127.0.0.1", 80), "hello");
    EXPECT_EQ(AskFrom(kWebNetns, "10.88.0.1", 80, kNoAnswerMs), "");
  }
  EXPECT_EQ(Create(plan).netns_inode, state.netns_inode);
  Delete(plan);
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
  Delete(plan);
}

TEST_F(NetworkHomes, ANamespaceAloneNeedsNoDeclaredNetwork) {
  config_.networks.clear();
  const NetworkPlan plan = Alone(NamespaceOrigin::kNew);
  Create(plan);
  Delete(plan);
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

TEST_F(NetworkHomes, AGivenNamespaceGetsItsLinkAndLivesOnWithout) {
  const UniqueFd given = UsersNetns(kAttacker);
  if (!given.valid()) {
    GTEST_SKIP() << "an ordinary user may make no user namespaces";
  }
  const Inventory before = Inventory::Take();
  const std::string links = LinksIn(PathOf(given));
  NetworkPlan plan = PlanGiven();
  const exec::Reply reply = CreateGiven(plan, given);
  ASSERT_EQ(ErrorOf(reply), "");
  plan.netns_inode = InodeOf(given.get());
  EXPECT_EQ(reply.body.network.netns_inode, plan.netns_inode);
  ASSERT_EQ(links.substr(0, 8), "lo down\n");
  const std::string raised = "lo up\n" + links.substr(8);
  EXPECT_EQ(LinksIn(kWebNetns), raised + "eth0 up\n");
  {
    const Server server(kWebNetns, 80, "hello");
    EXPECT_EQ(Ask("10.88.0.2", 80), "hello");
    EXPECT_EQ(Ask("fd88::2", 80), "hello");
    EXPECT_EQ(Ask("127.0.0.1", 18080), "hello");
    // The namespace lives on, so Delete removes the link before it answers.
    Delete(plan);
    EXPECT_EQ(LinksIn(PathOf(given)), raised);
    EXPECT_FALSE(Exists(kWebNetns));
    EXPECT_EQ(Ask("127.0.0.1", 18080, kNoAnswerMs), "");
  }
  EXPECT_EQ(DifferenceWithin(before, 20), "");
  // The same namespace may be passed again.
  ASSERT_EQ(ErrorOf(CreateGiven(plan, given)), "");
  Delete(plan);
  EXPECT_EQ(DifferenceWithin(before, 20), "");
}

// The packet is a single datagram, which nobody sends again. The kernel makes
// the end that was raised first ready in a work item of its own, late on a busy
// machine.
TEST_F(NetworkHomes, TheFirstPacketAfterTheAnswerPasses) {
  const UniqueFd given = UsersNetns(kAttacker);
  if (!given.valid()) {
    GTEST_SKIP() << "an ordinary user may make no user namespaces";
  }
  const Server server(PathOf(given), 80, "hello", Server::Transport::kUdp);
  NetworkPlan plan = PlanGiven();
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(ErrorOf(CreateGiven(plan, given)), "");
    ASSERT_EQ(AskUdp("10.88.0.2", 80), "hello") << "round " << round;
    Delete(plan);
  }
}

TEST_F(NetworkHomes, AGivenNamespaceAloneIsPinnedWithItsLoopbackUp) {
  const UniqueFd given = UsersNetns(kAttacker);
  if (!given.valid()) {
    GTEST_SKIP() << "an ordinary user may make no user namespaces";
  }
  const Inventory before = Inventory::Take();
  const std::string links = LinksIn(PathOf(given));
  NetworkPlan plan = Alone(NamespaceOrigin::kGiven);
  plan.owner_uid = kAttacker;
  ASSERT_EQ(ErrorOf(CreateGiven(plan, given)), "");
  EXPECT_EQ(StateOf(plan).netns_inode, InodeOf(given.get()));
  ASSERT_EQ(links.substr(0, 8), "lo down\n");
  const std::string raised = "lo up\n" + links.substr(8);
  EXPECT_EQ(LinksIn(kWebNetns), raised);
  {
    const Server server(kWebNetns, 80, "hello");
    EXPECT_EQ(AskFrom(kWebNetns, "127.0.0.1", 80), "hello");
    EXPECT_EQ(AskFrom(kWebNetns, "::1", 80), "hello");
  }
  Delete(plan);
  // A task may go on, and use the namespace.
  EXPECT_EQ(LinksIn(PathOf(given)), raised);
  EXPECT_EQ(DifferenceWithin(before, 20), "");
}

TEST_F(NetworkHomes, AnotherNamespaceInTheSamePlanIsNotTheOneThatIsThere) {
  const UniqueFd first = UsersNetns(kAttacker);
  const UniqueFd second = UsersNetns(kAttacker);
  if (!first.valid() || !second.valid()) {
    GTEST_SKIP() << "an ordinary user may make no user namespaces";
  }
  NetworkPlan plan = PlanGiven();
  ASSERT_EQ(ErrorOf(CreateGiven(plan, first)), "");
  const Inventory made = Inventory::Take();
  ASSERT_EQ(ErrorOf(CreateGiven(plan, first)), "");
  EXPECT_EQ(CodeOf(CreateGiven(plan, second)), "FailedPrecondition");
  EXPECT_EQ(Difference(made, Inventory::Take()), "");
  plan.netns_inode = InodeOf(second.get());
  EXPECT_EQ(CodeOf(Do(PlanKind::kDeleteNetwork, plan)), "FailedPrecondition");
  EXPECT_EQ(StateOf(plan).netns_inode, InodeOf(first.get()));
}

class SecondNetwork : public NetworkHomes {
 protected:
  // Makes "web" with its "eth0", and in the same namespace "eth1" of "back".
  void CreateBoth() {
    first_.netns_inode = Create(first_).netns_inode;
    second_ = Plan("web", 2, kPorts[1]);
    second_.network = ToWire("back");
    second_.interface = {"eth1"};
    second_.flags = 0;
    second_.ipv4 = {10, 99, 0, 2};
    second_.ipv6 = netns::ParseIpv6("fd99::2").value();
    second_.origin = NamespaceOrigin::kExisting;
    second_.netns_inode = first_.netns_inode;
    with_first_ = Inventory::Take();
    EXPECT_EQ(Create(second_).netns_inode, first_.netns_inode);
  }

  static constexpr std::uint16_t kPorts[] = {18080, 18081};
  NetworkPlan first_ = Plan("web", 2, kPorts[0]);
  NetworkPlan second_;
  Inventory with_first_;
};

TEST_F(SecondNetwork, BothAreReachedOnTheirAddressesAndPorts) {
  CreateBoth();
  EXPECT_EQ(LinksIn(kWebNetns).substr(0, 22), "lo up\neth0 up\neth1 up\n");
  const Server server(kWebNetns, 80, "hello");
  for (const char* address : {"10.88.0.2", "fd88::2", "10.99.0.2", "fd99::2"}) {
    EXPECT_EQ(Ask(address, 80), "hello") << address;
  }
  for (const std::uint16_t port : kPorts) {
    for (const char* address :
         {"127.0.0.1", "10.88.0.1", "10.99.0.1", "fd88::1", "fd99::1"}) {
      EXPECT_EQ(Ask(address, port), "hello") << address << " " << port;
    }
  }
}

TEST_F(SecondNetwork, AnotherAllocationReachesItsPort) {
  CreateBoth();
  Create(Plan("db", 3, 18082));
  const Server server(kWebNetns, 80, "hello");
  for (const char* address : {"10.88.0.1", "fd88::1"}) {
    for (const std::uint16_t port : kPorts) {
      EXPECT_EQ(AskFrom("/run/netns/db", address, port), "hello")
          << address << " " << port;
    }
  }
}

TEST_F(SecondNetwork, OnlyTheFirstHasTheDefaultRoute) {
  CreateBoth();
  const Server server("/proc/self/ns/net", 7000, "");
  EXPECT_EQ(AskFrom(kWebNetns, "10.88.0.1", 7000), "10.88.0.2");
  EXPECT_EQ(AskFrom(kWebNetns, "fd88::1", 7000), "fd88::2");
  EXPECT_EQ(AskFrom(kWebNetns, "10.99.0.1", 7000), "10.99.0.2");
  EXPECT_EQ(AskFrom(kWebNetns, "fd99::1", 7000), "fd99::2");
  // An address outside all networks is reached by the first network.
  Shell("ip addr add 192.0.2.1/32 dev lo");
  EXPECT_EQ(AskFrom(kWebNetns, "192.0.2.1", 7000), "10.88.0.2");
}

TEST_F(SecondNetwork, WhenItGoesTheFirstAndTheNamespaceStay) {
  CreateBoth();
  const Server server(kWebNetns, 80, "hello");
  Delete(second_);
  EXPECT_EQ(DifferenceWithin(with_first_, 20), "");
  EXPECT_EQ(StateOf(second_).host_ifindex, 0U);
  EXPECT_EQ(StateOf(second_).netns_inode, first_.netns_inode);
  EXPECT_EQ(Ask("10.88.0.2", 80), "hello");
  EXPECT_EQ(Ask("127.0.0.1", 18080), "hello");
  EXPECT_EQ(Ask("127.0.0.1", 18081, kNoAnswerMs), "");
  Delete(second_);
  EXPECT_EQ(
      Difference(with_first_, Inventory::Take(), Counted::kAllButConnections),
      "");
}

TEST_F(SecondNetwork, WithTheLastOneAllGo) {
  CreateBoth();
  EXPECT_EQ(Create(second_).netns_inode, first_.netns_inode) << "again";
  Delete(second_);
  Delete(first_);
  EXPECT_EQ(DifferenceWithin(before_, 20), "");
}

TEST_F(SecondNetwork, ItNeedsTheNamespaceThatWasRecorded) {
  CreateBoth();
  Delete(second_);
  for (const std::uint64_t inode : {std::uint64_t{0}, std::uint64_t{1}}) {
    NetworkPlan other = second_;
    other.netns_inode = inode;
    EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, other)),
              "FailedPrecondition");
  }
  // The second network does not fit another allocation either.
  NetworkPlan other = second_;
  other.allocation = ToWire("db");
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, other)), "FailedPrecondition");
  EXPECT_EQ(DifferenceWithin(with_first_, 20), "");
}

TEST_F(SecondNetwork, AnInterfaceThatIsThereIsNamedAndNothingIsMade) {
  CreateBoth();
  const Inventory made = Inventory::Take();
  NetworkPlan third = second_;
  third.ipv4 = {10, 99, 0, 3};
  third.ipv6.back() = 3;
  third.ports[0].host_port = 18082;
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, third)), "AlreadyExists");
  EXPECT_EQ(DifferenceWithin(made, 20), "");
}

class NetworkGivenAttacks : public NetworkHomes {
 protected:
  // Enters any namespace, as a naive daemon does.
  static bool NaiveEnters(const UniqueFd& fd) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(::setns(fd.get(), 0) == 0 ? 0 : 1);
    }
    return ExitOf(child) == 0;
  }

  // Returns the number, counted from 1, of the third such call. The calls are
  // for the user namespace, the own network namespace and the first process's.
  static std::size_t ThirdOf(const std::string& call,
                             const std::vector<std::string>& calls) {
    std::size_t times = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      times += calls[i] == call ? 1U : 0U;
      if (times == 3) {
        return i + 1;
      }
    }
    ADD_FAILURE() << "no third " << call;
    return 0;
  }
};

TEST_F(NetworkGivenAttacks, TheHostsOwnIsRefused) {
  NetworkPlan plan = PlanGiven();
  RuleConfig rule;
  rule.host_namespaces = true;
  config_.rules.push_back(rule);
  plan.may_be_hosts = 1;
  for (const char* path : {"/proc/thread-self/ns/net", "/proc/1/ns/net"}) {
    SCOPED_TRACE(path);
    const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
    ExpectRefused(plan, fd, "PermissionDenied");
    EXPECT_NAIVE(NaiveEnters(fd));
  }
}

// The executor cannot compare with /proc/1 if an LSM hides that.
TEST_F(NetworkGivenAttacks, WhatMayBeTheHostsIsRefusedIfNobodyCanTell) {
  auto made = real_.NewNetNamespace();
  const UniqueFd users = UsersNetns(kAttacker);
  ASSERT_TRUE(made.has_value());
  before_ = Inventory::Take();
  if (!users.valid()) {
    GTEST_SKIP() << "an ordinary user may make no user namespaces";
  }
  RuleConfig rule;
  rule.host_namespaces = true;
  config_.rules.push_back(rule);
  NetworkPlan plan = PlanGiven();
  plan.may_be_hosts = 1;
  ASSERT_EQ(ErrorOf(CreateGiven(plan, made->fd)), "");
  Delete(plan);
  ASSERT_EQ(DifferenceWithin(before_, 20), "");
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(CreateGiven(plan, users)), "");
  const std::size_t first = ThirdOf("StatLinked", kernel_.calls());
  Delete(plan);
  ASSERT_EQ(DifferenceWithin(before_, 20), "");
  kernel_.FailAt(first, EACCES);
  EXPECT_EQ(CodeOf(CreateGiven(plan, made->fd)), "PermissionDenied");
  kernel_.FailAt(first, EACCES);
  EXPECT_EQ(ErrorOf(CreateGiven(plan, users)), "");
  // Any other error leaves the question open, so the plan fails.
  Delete(plan);
  ASSERT_EQ(DifferenceWithin(before_, 20), "");
  kernel_.FailAt(first, EIO);
  EXPECT_NE(CodeOf(CreateGiven(plan, users)), "");
  EXPECT_NAIVE(NaiveEnters(made->fd));
}

TEST_F(NetworkGivenAttacks, AnotherAllocationsIsRefused) {
  const NetworkPlan web = Plan("web", 3, 18081);
  Create(web);
  NetworkPlan plan = PlanGiven("db");
  const UniqueFd fd(::open(kWebNetns, O_RDONLY | O_CLOEXEC));
  ExpectRefused(plan, fd, "PermissionDenied");
  RuleConfig rule;
  rule.host_namespaces = true;
  config_.rules.push_back(rule);
  plan.may_be_hosts = 1;
  ExpectRefused(plan, fd, "PermissionDenied");
  NetworkPlan alone = Alone(NamespaceOrigin::kGiven);
  alone.allocation = ToWire("db");
  alone.may_be_hosts = 1;
  ExpectRefused(alone, fd, "PermissionDenied");
  EXPECT_NAIVE(NaiveEnters(fd));
}

TEST_F(NetworkGivenAttacks, AnotherUsersIsRefused) {
  const UniqueFd fd = UsersNetns(kAttacker + 1);
  if (!fd.valid()) {
    GTEST_SKIP() << "an ordinary user may make no user namespaces";
  }
  NetworkPlan plan = PlanGiven();
  ExpectRefused(plan, fd, "PermissionDenied");
  // The right to namespaces of the host's user namespace does not extend to
  // those of other users.
  RuleConfig rule;
  rule.host_namespaces = true;
  config_.rules.push_back(rule);
  plan.may_be_hosts = 1;
  ExpectRefused(plan, fd, "PermissionDenied");
  EXPECT_NAIVE(NaiveEnters(fd));
  plan.owner_uid = kAttacker + 1;
  EXPECT_EQ(ErrorOf(CreateGiven(plan, fd)), "");
}

TEST_F(NetworkGivenAttacks, OneOfTheHostsUserNamespaceNeedsARuleAndThePlan) {
  auto made = real_.NewNetNamespace();
  ASSERT_TRUE(made.has_value());
  NetworkPlan plan = PlanGiven();
  plan.owner_uid = 0;  // root owns the host's user namespace
  ExpectRefused(plan, made->fd, "PermissionDenied");
  plan.may_be_hosts = 1;
  ExpectRefused(plan, made->fd, "PermissionDenied");
  RuleConfig rule;
  rule.host_namespaces = true;
  config_.rules.push_back(rule);
  plan.may_be_hosts = 0;
  ExpectRefused(plan, made->fd, "PermissionDenied");
  EXPECT_NAIVE(NaiveEnters(made->fd));
  plan.may_be_hosts = 1;
  const Inventory before = Inventory::Take();
  ASSERT_EQ(ErrorOf(CreateGiven(plan, made->fd)), "");
  {
    const Server server(kWebNetns, 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 18080), "hello");
  }
  Delete(plan);
  EXPECT_EQ(DifferenceWithin(before, 20), "");
}

TEST_F(NetworkGivenAttacks, AnFdOfAnotherKindIsRefused) {
  WriteFile("/run/file", "");
  for (const char* path :
       {"/proc/self/ns/mnt", "/proc/self/ns/user", "/run/file", "/run",
        "/dev/null", "/proc/self/mem"}) {
    SCOPED_TRACE(path);
    ExpectRefused(PlanGiven(), UniqueFd(::open(path, O_RDONLY | O_CLOEXEC)),
                  "InvalidArgument");
  }
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd out(pipe[0]);
  const UniqueFd in(pipe[1]);
  ExpectRefused(PlanGiven(), out, "InvalidArgument");
  ExpectRefused(PlanGiven(), in, "InvalidArgument");
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ExpectRefused(PlanGiven(), socket, "InvalidArgument");
  const UniqueFd mounts(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  EXPECT_NAIVE(NaiveEnters(mounts));
}

// The caller that passes the file may be its server, and never answer.
TEST_F(NetworkGivenAttacks, AFileOfAHungFuseServerIsRefusedWithoutAskingIt) {
  MakeDirectories("/run/fuse");
  FuseServer server("/run/fuse");
  ASSERT_TRUE(server.valid()) << errno;
  const UniqueFd fd(::open("/run/fuse/file", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd.valid()) << errno;
  NetworkPlan plan = PlanGiven();
  plan.netns_inode = InodeOf(fd.get());
  PutBeside(fd);
  server.Hang();
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, plan)), "InvalidArgument");
  const pid_t naive = StatInChild("/run/fuse/file");
  EXPECT_NAIVE(AwaitWaiting(naive));
  server.GoOn();
  EXPECT_EQ(ExitOf(naive), 0);
}

TEST_F(NetworkGivenAttacks, OneThatIsNotThePlansIsRefused) {
  const UniqueFd fd = UsersNetns(kAttacker);
  if (!fd.valid()) {
    GTEST_SKIP() << "an ordinary user may make no user namespaces";
  }
  NetworkPlan plan = PlanGiven();
  plan.netns_inode = InodeOf(fd.get()) + 1;
  ExpectRefused(plan, fd, "InvalidArgument");
  EXPECT_NAIVE(NaiveEnters(fd));
}

TEST_F(NetworkGivenAttacks, APlanAndItsFdsGoTogether) {
  const UniqueFd fd = UsersNetns(kAttacker);
  if (!fd.valid()) {
    GTEST_SKIP() << "an ordinary user may make no user namespaces";
  }
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, PlanGiven())),
            "InvalidArgument");
  PutBeside(fd);
  EXPECT_EQ(CodeOf(Do(PlanKind::kCreateNetwork, Plan("web", 2, 18080))),
            "InvalidArgument");
  PutBeside(UniqueFd());
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

// ---- Handed out ----

TEST_F(NetworkHomes, ANamespaceIsHandedOutAndOutlivesItsNetwork) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  const std::uint64_t inode = Create(plan).netns_inode;
  const exec::Reply reply = Do(PlanKind::kOpenNamespace, Opening(inode));
  ASSERT_EQ(ErrorOf(reply), "");
  const UniqueFd netns = std::move(last_fd_);
  ASSERT_EQ(InodeOf(netns.get()), inode);
  EXPECT_EQ(LinksIn(PathOf(netns)), "lo up\neth0 up\n");
  EXPECT_EQ(reply.body.handed_out.mount_id != 0, HasUniqueMountIds());
  Delete(plan);
  EXPECT_FALSE(Exists(kWebNetns));
  // The holder of the fd keeps the namespace, so mountd deletes the link.
  Delete(plan);
  EXPECT_EQ(StateOf(plan).host_ifindex, 0U);
  EXPECT_EQ(LinksIn(PathOf(netns)), "lo up\n");
}

TEST_F(NetworkHomes, OnlyTheNamespaceOfTheRecordIsHandedOut) {
  const NetworkPlan plan = Plan("web", 2, 18080);
  const std::uint64_t inode = Create(plan).netns_inode;
  const auto refused = [&](std::uint64_t asked) {
    last_fd_.reset();
    const exec::Reply reply = Do(PlanKind::kOpenNamespace, Opening(asked));
    EXPECT_FALSE(last_fd_.valid());
    return CodeOf(reply);
  };
  EXPECT_EQ(refused(inode + 1), "FailedPrecondition");
  EXPECT_EQ(refused(0), "InvalidArgument");
  // Root pins its own namespace at the name: the marker names another one.
  ASSERT_EQ(::umount2(kWebNetns, MNT_DETACH), 0);
  ASSERT_EQ(::mount("/proc/self/ns/net", kWebNetns, nullptr, MS_BIND, nullptr),
            0);
  const UniqueFd own(::open(kWebNetns, O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(own.valid());
  EXPECT_EQ(refused(InodeOf(own.get())), "FailedPrecondition");
  EXPECT_EQ(refused(inode), "FailedPrecondition");
  ASSERT_EQ(::umount2(kWebNetns, MNT_DETACH), 0);
  EXPECT_EQ(refused(inode), "FailedPrecondition");
  Delete(plan);
  Delete(plan);
}

}  // namespace
}  // namespace mountd::testing
