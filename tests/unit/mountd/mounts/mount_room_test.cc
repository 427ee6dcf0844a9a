// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/mounts/mount_room.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/fakes/core.h"
#include "tests/support/naive.h"
#include "tests/support/outcome.h"

// A plugin with too many mounts below its directory is refused, because each
// clone of its volumes would contain these mounts.
namespace mountd {
namespace {

using exec::SourceKind;

class PluginRoom : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(core_.AddPlugin("nfs"));
    for (const char* allocation : {"web", "other"}) {
      ASSERT_EQ(Outcome(core_.services->allocations.PrepareAllocation(
                    agent_, NameOf(allocation), "")),
                "Ok");
    }
    ASSERT_EQ(Publish("web"), "Ok");
    ASSERT_EQ(Bind(SourceKind::kPublishedVolume, "v", "there"), "Ok");
    core_.client->script().Forget();
    core_.room.SetPlugins({{"nfs", 100}, {"ebs", 0}});
  }

  std::string Publish(const std::string& allocation) {
    csi::PublishSpec spec;
    spec.allocation = allocation;
    spec.alias = "v";
    spec.plugin = "nfs";
    spec.volume_id = "v1";
    return MessageOf(
        core_.services->volumes.PublishVolume(agent_, spec, UniqueFd()));
  }
  std::string Bind(SourceKind kind, const std::string& source,
                   const std::string& name) {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "app";
    spec.name = name;
    spec.wish.source_kind = kind;
    spec.wish.source = source;
    return MessageOf(core_.services->mounts.BindMount(agent_, spec));
  }

  Core core_;
  const CallContext agent_ = Core::By(Core::kAgent);
};

TEST_F(PluginRoom, NoNewVolumeOrMountIsServedAndTheLimitIsNamed) {
  for (const std::string& refused :
       {Publish("other"), Bind(SourceKind::kPublishedVolume, "v", "new")}) {
    EXPECT_NE(refused.find("limits.mounts_per_plugin"), std::string::npos)
        << refused;
  }
  // Probes come at any time, so they do not count.
  std::vector<std::string> calls = core_.client->script().calls();
  std::erase_if(
      calls, [](const std::string& call) { return call.starts_with("Probe"); });
  EXPECT_EQ(calls, std::vector<std::string>());
  core_.room.SetPlugins({{"nfs", 99}});
  EXPECT_NAIVE(Publish("other") == "Ok");
  EXPECT_EQ(Bind(SourceKind::kPublishedVolume, "v", "new"), "Ok");
}

TEST_F(PluginRoom, WhatIsThereIsToldAgainAndCanGo) {
  EXPECT_EQ(Publish("web"), "Ok");
  EXPECT_EQ(Bind(SourceKind::kPublishedVolume, "v", "there"), "Ok");
  EXPECT_EQ(Outcome(core_.services->allocations.ReleaseAllocation(
                agent_, NameOf("web"))),
            "Ok");
}

TEST_F(PluginRoom, OtherSourcesAreServed) {
  EXPECT_EQ(Bind(SourceKind::kHostVolume, "data", "host"), "Ok");
}

TEST_F(PluginRoom, WhoCouldNotBeCountedKeepsItsCount) {
  EXPECT_EQ(core_.room.SetPlugins({{"nfs", std::nullopt}, {"ebs", 5}}), 0U);
  EXPECT_EQ(Outcome(core_.room.Check("x", "y", "nfs")), "ResourceExhausted");
  EXPECT_EQ(core_.room.SetPlugins({{"nfs", 40}, {"ebs", 70}}), 30U);
  EXPECT_EQ(Outcome(core_.room.Check("x", "y", "nfs")), "Ok");
}

}  // namespace
}  // namespace mountd
