// SPDX-License-Identifier: LGPL-2.1-or-later
// A task's list of mounts has each mount once.
#include <gtest/gtest.h>

#include "agent/types_mounts.h"

namespace mountd::agent {
namespace {

MountConfig At(const std::string& host_path, const std::string& task_path,
               std::uint64_t mount_id = 1) {
  MountConfig config;
  config.host_path = host_path;
  config.task_path = task_path;
  config.mount_id = mount_id;
  return config;
}

TEST(InsertMountTest, ARepeatedAnswerChangesNothing) {
  std::vector<MountConfig> mounts;
  EXPECT_TRUE(InsertMount(At("/m/a", "/a"), mounts));
  EXPECT_TRUE(InsertMount(At("/m/b", "/b"), mounts));
  EXPECT_FALSE(InsertMount(At("/m/a", "/a"), mounts));
  EXPECT_EQ(mounts, (std::vector{At("/m/a", "/a"), At("/m/b", "/b")}));
}

TEST(InsertMountTest, ARepairedMountTakesItsOwnPlace) {
  std::vector<MountConfig> mounts{At("/m/a", "/a"), At("/m/b", "/b")};
  EXPECT_TRUE(InsertMount(At("/m/a", "/a", 7), mounts));
  EXPECT_EQ(mounts, (std::vector{At("/m/a", "/a", 7), At("/m/b", "/b")}));
}

TEST(InsertMountTest, ATaskPathHasOneMount) {
  std::vector<MountConfig> mounts{At("/m/a", "/a"), At("/m/b", "/b"),
                                  At("/m/c", "/c")};
  EXPECT_TRUE(InsertMount(At("/m/c", "/a"), mounts));
  EXPECT_EQ(mounts, (std::vector{At("/m/c", "/a"), At("/m/b", "/b")}));
}

TEST(InsertMountTest, MountsWithoutATaskPathStayApart) {
  std::vector<MountConfig> mounts;
  EXPECT_TRUE(InsertMount(At("/m/a", ""), mounts));
  EXPECT_TRUE(InsertMount(At("/m/b", ""), mounts));
  EXPECT_EQ(mounts.size(), 2U);
}

TEST(InsertMountTest, AMountInAContainerIsNoTasksMount) {
  std::vector<MountConfig> mounts;
  EXPECT_FALSE(InsertMount(At("", "/a"), mounts));
  EXPECT_TRUE(mounts.empty());
}

}  // namespace
}  // namespace mountd::agent
