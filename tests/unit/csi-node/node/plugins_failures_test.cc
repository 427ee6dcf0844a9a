// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Plugins that cannot be made or removed, and their state afterwards.
#include <gtest/gtest.h>

#include "csi-node/node/declared_plugins.h"
#include "tests/support/full_disk.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd::csi {
namespace {

class PluginsFailuresTest : public ::testing::Test {
 protected:
  exec::FakeExecutor& executor() { return *core_.executor; }
  Plugins& plugins() { return *core_.plugins; }
  static PluginRecord Of(const std::string& allocation,
                         const std::string& type = "node") {
    PluginRecord record{"nfs", type, Core::kAgent, "", ""};
    record.allocation = allocation;
    return record;
  }
  std::string Register(const PluginRecord& record) {
    if (!record.allocation.empty()) {
      // The second call finds the allocation, and ignores that error.
      IgnoreBecauseBestEffort(core_.state->allocations.AddAllocation(
          {record.allocation, Core::kAgent, 1, "",
           AllocationState::kPrepared}));
    }
    return Outcome(plugins().Register(record));
  }
  std::string Unregister(const PluginSelection& which) {
    return Outcome(plugins().Unregister("nfs", which));
  }
  std::size_t Instances() {
    const auto status = plugins().Get("nfs");
    return status ? status->instances.size() : 0;
  }

  Core core_;
};

TEST_F(PluginsFailuresTest, ASecondInstanceThatCannotBePreparedIsNotThere) {
  ASSERT_EQ(Register(Of("one")), "Ok");
  // The supervisor of the first instance prepares the directory, too, so the
  // test waits for it.
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  executor().FailNext("PreparePlugin", Code::kInternal);
  EXPECT_EQ(Register(Of("two")), "Internal");
  EXPECT_EQ(Instances(), 1U);
  EXPECT_EQ(core_.state->plugins.ListPlugins()->size(), 1U);
  EXPECT_EQ(Register(Of("two")), "Ok");
  EXPECT_EQ(Instances(), 2U);
}

TEST_F(PluginsFailuresTest, WhatCannotBeTakenBackStaysInSight) {
  executor().FailNext("PreparePlugin", Code::kInternal, FailWhen::kAfter);
  executor().FailNext("RemovePlugin", Code::kBusy);
  EXPECT_EQ(Register(Of("")), "Internal");
  EXPECT_EQ(Instances(), 1U);
  EXPECT_EQ(Unregister({}), "Ok");
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_F(PluginsFailuresTest, TheSameRegistrationIsOneOthersAreNone) {
  PluginRecord record = Of("");
  record.mount_dir = "/csi";
  record.stage_publish_base_dir = "/csi/stage";
  ASSERT_EQ(Register(record), "Ok");
  EXPECT_EQ(Register(record), "Ok");
  PluginRecord other = record;
  other.stage_publish_base_dir = "/elsewhere";
  EXPECT_EQ(Register(other), "AlreadyExists");
  other = record;
  other.mount_dir = "/other";
  EXPECT_EQ(Register(other), "AlreadyExists");
  EXPECT_EQ(Instances(), 1U);
}

TEST_F(PluginsFailuresTest, OneDirectoryForAllIsMountedOnce) {
  PluginRecord record = Of("");
  record.mount_dir = "/csi";
  record.stage_publish_base_dir = "/csi";
  const auto made = plugins().Register(record);
  ASSERT_THAT(made, IsOk());
  ASSERT_EQ(made->mounts.size(), 2U);
  EXPECT_EQ(made->mounts[0].task_path, "/csi");
  EXPECT_EQ(made->mounts[1].task_path, "/dev");
}

// A full disk is not the same as a plugin in use, so force does not help.
TEST_F(PluginsFailuresTest, ForceDoesNotHelpAgainstAFullDisk) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  {
    const FullDisk full;
    EXPECT_NE(Unregister({.force = true}), "Ok");
  }
  EXPECT_EQ(Instances(), 1U);
  EXPECT_THAT(plugins().Use("nfs"), IsOk());
  EXPECT_EQ(executor().script().Count("RemovePlugin"), 0U);
  EXPECT_EQ(Unregister({}), "Ok");
  EXPECT_TRUE(executor().Existing().empty());
}

// Controllers have no volumes, so each of them may go, even the last one.
TEST_F(PluginsFailuresTest, ControllersAloneGoOneByOne) {
  ASSERT_EQ(Register(Of("one", "controller")), "Ok");
  ASSERT_EQ(Register(Of("two", "controller")), "Ok");
  PluginSelection which;
  which.allocation = "one";
  EXPECT_EQ(Unregister(which), "Ok");
  EXPECT_EQ(Instances(), 1U);
  EXPECT_EQ(executor().script().Count("RemovePlugin nfs"), 0U);
  which.allocation = "two";
  EXPECT_EQ(Unregister(which), "Ok");
  EXPECT_FALSE(plugins().Get("nfs").has_value());
}

// The socket goes with the directory later.
TEST_F(PluginsFailuresTest, AnInstanceGoesAlthoughItsSocketStays) {
  ASSERT_EQ(Register(Of("one", "controller")), "Ok");
  ASSERT_EQ(Register(Of("two", "controller")), "Ok");
  PluginSelection which;
  which.allocation = "one";
  executor().FailNext("RemovePluginSocket", Code::kUnavailable);
  EXPECT_EQ(Unregister(which), "Ok");
  EXPECT_EQ(Instances(), 1U);
  EXPECT_EQ(core_.state->plugins.ListPlugins()->size(), 1U);
  EXPECT_EQ(Unregister({}), "Ok");
  EXPECT_TRUE(executor().Existing().empty());
}

// A plugin that is kept for its volumes has no instance.
TEST_F(PluginsFailuresTest, WhatIsGoneHasNoInstanceToUnregister) {
  ASSERT_EQ(Register(Of("one")), "Ok");
  ASSERT_THAT(core_.state->allocations.AddAllocation(
                  {"web", 1, 1, "", AllocationState::kPrepared}),
              IsOk());
  const PublicationRecord publication = AddUsedVolume(core_, "alias");
  ASSERT_EQ(Unregister({.force = true}), "Ok");
  ASSERT_THAT(core_.state->volumes.RemovePublication(publication, true),
              IsOk());
  EXPECT_EQ(Unregister({.type = "node"}), "Ok");
  EXPECT_EQ(Unregister({.allocation = "one"}), "Ok");
  ASSERT_TRUE(plugins().Get("nfs").has_value());
  EXPECT_EQ(plugins().Get("nfs")->state, PluginState::kGone);
  EXPECT_EQ(Unregister({}), "Ok");
  EXPECT_FALSE(plugins().Get("nfs").has_value());
}

TEST_F(PluginsFailuresTest, WhoIsNotThereIsUnregistered) {
  EXPECT_EQ(Unregister({}), "Ok");
  ASSERT_EQ(Register(Of("one")), "Ok");
  PluginSelection other;
  other.allocation = "two";
  EXPECT_EQ(Unregister(other), "Ok");
  other = {};
  other.type = "controller";
  EXPECT_EQ(Unregister(other), "Ok");
  EXPECT_EQ(Instances(), 1U);
}

TEST_F(PluginsFailuresTest, AStartTakesUpAnInstanceThatWasNeverHealthy) {
  executor().SetListening("nfs/" + InstanceKey::Derive("one", "node").str(),
                          false);
  ASSERT_EQ(Register(Of("one")), "Ok");
  ASSERT_EQ(Register(Of("two", "controller")), "Ok");
  core_.Restart();
  ASSERT_THAT(core_.Recover(), IsOk());
  EXPECT_EQ(Instances(), 2U);
}

// ---- Plugins that root declares ----

TEST_F(PluginsFailuresTest, NamesAreOfAllThatAreOrWereDeclared) {
  std::map<std::string, PluginConfig> declared;
  PluginConfig plugin;
  plugin.type = "monolith";
  plugin.command = {"/opt/csi"};
  declared.emplace("nfs", plugin);
  ASSERT_EQ(Register({"users", "node", Core::kAgent, "", ""}), "Ok");
  {
    DeclaredPlugins one(declared, executor(), plugins());
    EXPECT_EQ(one.Names(), std::vector<std::string>{"nfs"});
    EXPECT_THAT(one.Settle("nfs"), IsOk());
    EXPECT_EQ(one.Names(), std::vector<std::string>{"nfs"});
  }
  declared.clear();
  DeclaredPlugins none(declared, executor(), plugins());
  // "nfs" was declared, so mountd lets it go; a user's plugin is no matter of
  // this.
  EXPECT_EQ(none.Names(), std::vector<std::string>{"nfs"});
  EXPECT_THAT(none.Settle("users"), IsOk());
  EXPECT_THAT(none.Settle("nowhere"), IsOk());
  EXPECT_EQ(executor().script().Count("StopPlugin"), 0U);
  EXPECT_THAT(none.Settle("nfs"), IsOk());
  EXPECT_EQ(executor().script().Count("StopPlugin nfs"), 1U);
  EXPECT_TRUE(none.Names().empty());
  EXPECT_TRUE(plugins().Get("users").has_value());
}

TEST_F(PluginsFailuresTest, ADeclaredOneThatCannotBeMadeIsNotStarted) {
  std::map<std::string, PluginConfig> declared;
  declared["nfs"].type = "node";
  declared["nfs"].command = {"/opt/csi"};
  DeclaredPlugins one(declared, executor(), plugins());
  executor().FailNext("PreparePlugin", Code::kBusy);
  EXPECT_THAT(one.Settle("nfs"), IsErr(Code::kBusy));
  EXPECT_EQ(executor().script().Count("StartPlugin"), 0U);
  EXPECT_THAT(one.Settle("nfs"), IsOk());
  EXPECT_EQ(executor().script().Count("StartPlugin"), 1U);
}

}  // namespace
}  // namespace mountd::csi
