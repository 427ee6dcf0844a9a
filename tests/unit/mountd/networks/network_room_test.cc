// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/network_room.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "propagation/ground/base.h"
#include "tests/support/fakes/core.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

constexpr std::uint32_t kUserOfRoom = 1000;
constexpr std::uint32_t kOther = 1001;

NetworkRecord Record(const std::string& allocation,
                     const std::string& interface = "lo") {
  NetworkRecord record;
  record.allocation = allocation;
  record.interface = interface;
  record.mode = NetworkMode::kNone;
  return record;
}

NetworkRecord WithFiles(const std::string& allocation, std::size_t hosts) {
  NetworkRecord record = Record(allocation);
  record.files.hosts.assign(hosts, {"192.0.2.1", {std::string(60, 'a')}});
  return record;
}

class NetworkRoomTest : public ::testing::Test {
 protected:
  std::string Take(std::uint32_t uid, const NetworkRecord& record) {
    return MessageOf(room_.Take(uid, record));
  }
  LimitsConfig limits_ = [] {
    LimitsConfig limits;
    limits.network_file_bytes_per_uid =
        3 * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    limits.namespaces_per_uid = 2;
    return limits;
  }();
  NetworkRoom room_{limits_};
};

TEST_F(NetworkRoomTest, ALimitIsOfOneUser) {
  EXPECT_EQ(Take(kUserOfRoom, Record("a")), "Ok");
  EXPECT_EQ(Take(kUserOfRoom, Record("b")), "Ok");
  EXPECT_NE(Take(kUserOfRoom, Record("c")).find("limits.namespaces_per_uid"),
            std::string::npos);
  EXPECT_EQ(Take(kOther, Record("d")), "Ok");
  room_.Free(Record("a"));
  EXPECT_EQ(Take(kUserOfRoom, Record("c")), "Ok");
}

TEST_F(NetworkRoomTest, FilesCountInWholePages) {
  EXPECT_EQ(Take(kUserOfRoom, WithFiles("a", 1)), "Ok");
  // Two allocations are needed, because one does not hold so much.
  EXPECT_EQ(Take(kUserOfRoom, WithFiles("a", 60)), "Ok");
  NetworkRecord two = WithFiles("b", 1);
  two.mode = NetworkMode::kHost;
  EXPECT_EQ(Take(kUserOfRoom, two), "Ok");
  NetworkRecord more = two;
  more.allocation = "c";
  EXPECT_NE(Take(kUserOfRoom, more).find("limits.network_file_bytes_per_uid"),
            std::string::npos);
  // The refused network took nothing, and a smaller one fits.
  EXPECT_EQ(Take(kUserOfRoom, WithFiles("a", 1)), "Ok");
  EXPECT_EQ(Take(kUserOfRoom, more), "Ok");
}

TEST_F(NetworkRoomTest, NetworksOfAnAllocationShareItsNamespace) {
  EXPECT_EQ(Take(kUserOfRoom, Record("a", "eth0")), "Ok");
  EXPECT_EQ(Take(kUserOfRoom, Record("a", "eth1")), "Ok");
  EXPECT_EQ(Take(kUserOfRoom, Record("b")), "Ok");
  room_.Free(Record("a", "eth0"));
  EXPECT_NE(Take(kUserOfRoom, Record("c")), "Ok");
  room_.Free(Record("a", "eth1"));
  EXPECT_EQ(Take(kUserOfRoom, Record("c")), "Ok");
}

TEST_F(NetworkRoomTest, GivenNamespacesAndTheHostsAreFree) {
  NetworkRecord given = Record("a");
  given.netns_given = true;
  NetworkRecord host = Record("b");
  host.mode = NetworkMode::kHost;
  for (const char* name : {"1", "2", "3", "4"}) {
    given.allocation = std::string("given") + name;
    host.allocation = std::string("host") + name;
    EXPECT_EQ(Take(kUserOfRoom, given), "Ok");
    EXPECT_EQ(Take(kUserOfRoom, host), "Ok");
  }
}

TEST_F(NetworkRoomTest, WhatIsThereCountsWhateverTheLimitIs) {
  for (const char* name : {"a", "b", "c"}) {
    room_.TakeRecorded(kUserOfRoom, Record(name));
  }
  EXPECT_NE(Take(kUserOfRoom, Record("d")), "Ok");
  // The same record again takes nothing more.
  EXPECT_EQ(Take(kUserOfRoom, Record("a")), "Ok");
  room_.Free(Record("a"));
  EXPECT_NE(Take(kUserOfRoom, Record("d")), "Ok");
  room_.Free(Record("b"));
  EXPECT_EQ(Take(kUserOfRoom, Record("d")), "Ok");
}

// The whole core names the limit before it makes anything, and counts networks
// from before a restart.
TEST(NetworkRoomOfCore, TheLimitOutlivesARestart) {
  Config config = Core::DefaultConfig();
  config.limits.namespaces_per_uid = 2;
  Core core(config);
  NetworkRequest none;
  none.mode = NetworkMode::kNone;
  const CallContext user = Core::By(Core::kAgent);
  const auto set_up = [&](const std::string& allocation) {
    EXPECT_EQ(MessageOf(core.services->allocations.PrepareAllocation(
                  user, NameOf(allocation), "")),
              "Ok");
    return MessageOf(
        core.services->networks.SetupNetwork(user, NameOf(allocation), none));
  };
  EXPECT_EQ(set_up("a"), "Ok");
  EXPECT_EQ(set_up("b"), "Ok");
  const auto refused = [&](const std::string& allocation) {
    const std::vector<std::string> before = core.executor->Existing();
    EXPECT_EQ(MessageOf(core.services->allocations.PrepareAllocation(
                  user, NameOf(allocation), "")),
              "Ok");
    EXPECT_EQ(Outcome(core.services->networks.SetupNetwork(
                  user, NameOf(allocation), none)),
              "ResourceExhausted");
    EXPECT_EQ(MessageOf(core.services->allocations.ReleaseAllocation(
                  user, NameOf(allocation))),
              "Ok");
    EXPECT_EQ(core.executor->Existing(), before);
  };
  refused("c");
  core.Restart();
  ASSERT_EQ(MessageOf(core.Recover()), "Ok");
  refused("d");
  EXPECT_EQ(MessageOf(core.services->allocations.ReleaseAllocation(
                user, NameOf("a"))),
            "Ok");
  EXPECT_EQ(set_up("d"), "Ok");
}

// SECURITY.md says of the base that by the shipped limits several users have
// room in it for all they can have.
TEST(NetworkRoomOfCore, SeveralUsersFitIntoTheBase) {
  const LimitsConfig limits;
  EXPECT_LE(5 * limits.network_file_bytes_per_uid, propagation::kBaseBytes);
  EXPECT_GE(limits.network_file_bytes_per_uid,
            std::uint64_t{limits.allocations_per_uid} * 3 * 4096);
  // Each allocation has its directory, its inboxes, the directory of its files
  // with these files, and its network's mark. Each mount has its task's
  // directory, and either its mount point or the link to its place.
  const std::uint64_t files =
      std::uint64_t{limits.allocations_per_uid} *
          (1 + limits.inboxes_per_allocation + 1 + 3 + 1) +
      std::uint64_t{limits.mounts_per_uid} * 2;
  EXPECT_LE(5 * files, propagation::kBaseFiles);
}

}  // namespace
}  // namespace mountd
