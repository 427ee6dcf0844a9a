// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/node/node_fixture.h"

#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mountd::testing {

void NodeFixture::Reboot() {
  constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";
  client_.reset();
  Node::KillAll();
  node_.reset();
  Node::KillAll();
  for (const char* path : {"/run/netns", "/run/mountd"}) {
    std::vector<std::string> points = MountPointsUnder(path);
    for (auto point = points.rbegin(); point != points.rend(); ++point) {
      ::umount2(point->c_str(), MNT_DETACH);
    }
    EXPECT_TRUE(MountPointsUnder(path).empty());
    std::filesystem::remove_all(path);
  }
  // These rules are in the host's own network namespace, which outlives the
  // node, so the reboot removes them here.
  EXPECT_EQ(std::system("nft flush ruleset"), 0);
  const std::string path = "/run/boot_id." + std::to_string(++boots_);
  std::ofstream(path) << "0000000" << boots_
                      << "-0000-4000-8000-000000000001\n";
  ASSERT_EQ(::mount(path.c_str(), kBootId, nullptr, MS_BIND, nullptr), 0);
  auto node = Node::StartAgain();
  ASSERT_TRUE(node) << node.error().Message();
  node_ = *std::move(node);
  Connect();
}

}  // namespace mountd::testing
