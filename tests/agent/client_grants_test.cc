// SPDX-License-Identifier: LGPL-2.1-or-later
// The client's lists of what a user may use.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/agent/client_test.h"

namespace mountd::agent::test {
namespace {

class ClientGrantsTest : public ClientTest {};

TEST_F(ClientGrantsTest, ListHostVolumesAnswersWhichMountsAreGranted) {
  const auto volumes = client_->ListHostVolumes().value();
  EXPECT_EQ(script().last_call(), "ListHostVolumes {}");
  ASSERT_EQ(volumes.size(), 1U);
  const SourceGrant& source = volumes[0].source;
  EXPECT_EQ(source.name, "shared");
  EXPECT_EQ(volumes[0].path, "/srv/shared");
  EXPECT_THAT(volumes[0].root_as_caller, testing::ElementsAre("read-only"));
  EXPECT_THAT(source.read_only_propagation,
              testing::ElementsAre("private", "host-to-task"));
  EXPECT_THAT(source.writable_propagation, testing::ElementsAre("private"));
  EXPECT_THAT(source.attributes, testing::ElementsAre("nosuid", "nodev"));
  ASSERT_EQ(source.ids.size(), 2U);
  EXPECT_EQ(source.ids[0].first, 100000U);
  EXPECT_EQ(source.ids[0].last, 165535U);
  EXPECT_EQ(source.limits.at("mounts_per_uid"), 10000U);
  EXPECT_TRUE(source.uids.empty());
}

TEST_F(ClientGrantsTest, ListFilesystemsAnswersTypeAndOptions) {
  const auto filesystems = client_->ListFilesystems().value();
  ASSERT_EQ(filesystems.size(), 1U);
  EXPECT_EQ(filesystems[0].source.name, "homes");
  EXPECT_EQ(filesystems[0].type, "nfs4");
  EXPECT_THAT(filesystems[0].options, testing::ElementsAre("soft"));
}

TEST_F(ClientGrantsTest, ListNetworksAnswersBothKinds) {
  const auto networks = client_->ListNetworks().value();
  ASSERT_EQ(networks.size(), 2U);
  EXPECT_EQ(networks[0].network, "default");
  EXPECT_EQ(networks[0].mode, "bridge");
  EXPECT_THAT(networks[0].ipv4, testing::ElementsAre("10.88.0.0/16"));
  EXPECT_THAT(networks[0].ipv6, testing::ElementsAre("fd88::/64"));
  EXPECT_EQ(networks[0].mtu, 9000U);
  EXPECT_TRUE(networks[0].host_namespaces);
  ASSERT_EQ(networks[0].host_ports.size(), 1U);
  EXPECT_EQ(networks[0].host_ports[0].last, 20100U);
  EXPECT_EQ(networks[1].mode, "cni/net");
  EXPECT_NE(networks[1].unusable, "");
  EXPECT_TRUE(networks[1].ipv4.empty());
}

// Root's uid is 0, which is not "no uid".
TEST_F(ClientGrantsTest, AnotherUserIsNamedByUid) {
  ASSERT_TRUE(client_->ListHostVolumes(0));
  EXPECT_EQ(script().last_call(), "ListHostVolumes {uid=u0;}");
  ASSERT_TRUE(client_->ListFilesystems(1000));
  EXPECT_EQ(script().last_call(), "ListFilesystems {uid=u1000;}");
  Client all =
      Client::Connect({.address = server_.address(), .all_users = true})
          .value();
  ASSERT_TRUE(all.ListNetworks());
  EXPECT_EQ(script().last_call(), "ListNetworks {all_users=true;}");
  // mountd refuses both together.
  ASSERT_TRUE(all.ListNetworks(0));
  EXPECT_EQ(script().last_call(), "ListNetworks {uid=u0;}");
}

}  // namespace
}  // namespace mountd::agent::test
