// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/drain.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mountd::agent::test {
namespace {

std::vector<std::string> Releasable(const std::vector<StagedVolume>& volumes) {
  PluginStatus plugin;
  plugin.id = "csi";
  plugin.instances.resize(2);
  plugin.instances[0].allocation = "plugin-task";
  std::vector<std::string> ids;
  for (const AllocationEntry& entry :
       ReleasableOf({{"plugin-task", 0, "", ""}, {"web", 0, "", ""}}, {plugin},
                    volumes)) {
    ids.push_back(entry.id);
  }
  return ids;
}

StagedVolume Volume(const std::string& plugin, std::vector<VolumeUser> users) {
  StagedVolume volume;
  volume.plugin = plugin;
  volume.users = std::move(users);
  return volume;
}

using Ids = std::vector<std::string>;

TEST(Drain, APluginsTaskGoesAfterItsUsers) {
  EXPECT_EQ(Releasable({Volume("csi", {{"web", "data"}})}), Ids{"web"});
  EXPECT_EQ(Releasable({}), (Ids{"plugin-task", "web"}));
}

TEST(Drain, APluginsTaskStaysUntilAllIsUnstaged) {
  EXPECT_EQ(Releasable({Volume("csi", {})}), Ids{"web"});
}

TEST(Drain, OtherPluginsVolumesKeepNothing) {
  EXPECT_EQ(Releasable({Volume("other", {{"web", "data"}})}),
            (Ids{"plugin-task", "web"}));
}

// A plugin that waited for its own allocation's volumes would wait for itself.
TEST(Drain, ItsOwnVolumesDoNotKeepIt) {
  EXPECT_EQ(Releasable({Volume("csi", {{"plugin-task", "data"}})}),
            (Ids{"plugin-task", "web"}));
  EXPECT_EQ(Releasable({Volume("csi", {{"plugin-task", "d"}, {"web", "d"}})}),
            Ids{"web"});
}

}  // namespace
}  // namespace mountd::agent::test
