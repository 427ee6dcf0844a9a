// SPDX-License-Identifier: LGPL-2.1-or-later
// mountctl's commands on volumes, their plugins and their snapshots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/agent/mountctl_test.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ProgramOutcome;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(MountctlTest, VolumeListHasPluginStateModesAndUsers) {
  EXPECT_EQ(Run({"volume", "list"}).out,
            "PLUGIN     VOLUME    STATE   ACCESS              ATTACHMENT   "
            "FILE SYSTEM  USERS\n"
            "csi-local  web-data  staged  single-node-writer  file-system  "
            "ext4         web/data\n");
  const json volumes = RunJson({"volume", "list"});
  EXPECT_EQ(volumes[0]["access_mode"], "single-node-writer");
  EXPECT_EQ(volumes[0]["attachment_mode"], "file-system");
  EXPECT_EQ(volumes[0]["needs_secrets"], false);
}

TEST_F(MountctlTest, VolumeListOfAPluginHasEveryPage) {
  const ProgramOutcome outcome = Run({"volume", "list", "--plugin", "csi"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("vol-1     1 GiB     n1, n2  -"));
  EXPECT_THAT(outcome.out, HasSubstr("abnormal: its disk is slow"));
  EXPECT_THAT(
      script().calls(),
      testing::ElementsAre("ListPluginVolumes csi {}",
                           "ListPluginVolumes csi {starting_token=page-2;}"));
  const json volumes = RunJson({"volume", "list", "--plugin", "csi"});
  ASSERT_EQ(volumes.size(), 2U);
  EXPECT_FALSE(volumes[0].contains("abnormal"));
  EXPECT_EQ(volumes[1]["abnormal"], true);
  EXPECT_EQ(volumes[1]["topology"][0]["zone"], "a");
}

TEST_F(MountctlTest, VolumeStatusIsWhatTheAllocationAndTheNodeHave) {
  const ProgramOutcome outcome = Run({"volume", "status", "web", "data"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("volume web-data\n"));
  EXPECT_THAT(outcome.out, HasSubstr("host path     /p/data\n"));
  EXPECT_THAT(outcome.out, HasSubstr("access        single-node-writer\n"));
  EXPECT_EQ(script().count("ListPluginVolumes"), 0U)
      << "an agent may have no rule for its plugin's controller";
  const json report = RunJson({"volume", "status", "web", "data"});
  EXPECT_EQ(report["published"]["alias"], "data");
  EXPECT_EQ(report["staged"]["state"], "staged");
  EXPECT_TRUE(report["known"].is_null());
  const ProgramOutcome none = Run({"volume", "status", "web", "other"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, StartsWith("mountctl: org.mountd1.Error.NotFound: "));
}

TEST_F(MountctlTest, VolumeStatusOfAPluginsVolumeAsksItsController) {
  const std::vector<std::string> staged{"volume",    "status",   "--plugin",
                                        "csi-local", "--volume", "web-data"};
  const json both = RunJson(staged);
  EXPECT_EQ(both["staged"]["fs_type"], "ext4");
  EXPECT_EQ(both["known"]["capacity_bytes"], 1'073'741'824);
  EXPECT_TRUE(both["published"].is_null());

  // The plugin's list is not granted, but mountctl still shows what the node
  // knows.
  script().Fail("ListPluginVolumes",
                {"org.mountd1.Error.PermissionDenied", "no rule"});
  EXPECT_TRUE(RunJson(staged)["known"].is_null());

  const ProgramOutcome elsewhere =
      Run({"volume", "status", "--plugin", "csi-local", "--volume", "vol-1"});
  EXPECT_EQ(elsewhere.status, 0) << elsewhere.err;
  EXPECT_THAT(elsewhere.out, HasSubstr("state         not staged\n"));
  EXPECT_THAT(elsewhere.out, HasSubstr("nodes         n1, n2\n"));

  const std::vector<std::string> unknown{"volume",    "status",   "--plugin",
                                         "csi-local", "--volume", "none"};
  EXPECT_THAT(Run(unknown).err, HasSubstr("Error.NotFound"));
  script().Fail("ListPluginVolumes",
                {"org.mountd1.Error.PermissionDenied", "no rule"});
  EXPECT_THAT(Run(unknown).err, HasSubstr("Error.PermissionDenied: no rule"));
}

TEST_F(MountctlTest, VolumeStatsAreSizesAndTheCondition) {
  const ProgramOutcome outcome = Run({"volume", "stats", "web", "data"});
  EXPECT_EQ(outcome.out,
            "UNIT   TOTAL  USED  AVAILABLE\n"
            "bytes  100 B  40 B  60 B\n"
            "abnormal: its disk is slow\n");
  EXPECT_EQ(script().last_call(), "GetVolumeStats web data {}");
  const json stats = RunJson({"volume", "stats", "web", "data"});
  EXPECT_EQ(stats["usage"][0]["available"], 60);
  EXPECT_EQ(stats["condition"], "its disk is slow");
}

TEST_F(MountctlTest, VolumeExpandTakesSizesWithAndWithoutUnits) {
  const std::vector<std::pair<std::string, std::string>> sizes{
      {"4096", "4096"},
      {"512MiB", "536870912"},
      {"10GiB", "10737418240"},
      {"10G", "10737418240"}};
  for (const auto& [text, bytes] : sizes) {
    EXPECT_EQ(Run({"volume", "expand", "web", "data", text}).status, 0);
    EXPECT_EQ(script().last_call(), "ExpandVolume web data " + bytes + " {}");
  }
  EXPECT_EQ(
      Run({"volume", "expand", "web", "data", "1536MiB", "--limit", "2GiB"})
          .out,
      "now 1.5 GiB\n");
  EXPECT_EQ(script().last_call(),
            "ExpandVolume web data 1610612736 {limit_bytes=x2147483648;}");
  EXPECT_EQ(RunJson({"volume", "expand", "web", "data", "1K"})["bytes"], 1024);
}

TEST_F(MountctlTest, VolumeCreateSendsWhatItIsTold) {
  const ProgramOutcome outcome = Run({"volume",
                                      "create",
                                      "--parameter",
                                      "tier=fast",
                                      "csi",
                                      "web",
                                      "--capacity",
                                      "10GiB",
                                      "--limit",
                                      "20GiB",
                                      "--parameter",
                                      "x=a=b",
                                      "--mutable-parameter",
                                      "iops=9",
                                      "--access-mode",
                                      "multi-node-multi-writer",
                                      "--fs-type",
                                      "ext4",
                                      "--from-snapshot",
                                      "snap-1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(script().last_call(),
            "CreateVolume csi web {limit_bytes=x21474836480;"
            "mutable_parameters={iops=9;};parameters={tier=fast;x=a=b;};"
            "required_bytes=x10737418240;source_snapshot=snap-1;"
            "usages={access_mode=multi-node-multi-writer;fs_type=ext4;}+;} {}");
  EXPECT_THAT(outcome.out, StartsWith("volume id-of-web\n"));
  EXPECT_THAT(outcome.out, HasSubstr("source        snapshot snap-1\n"));
  const json volume = RunJson({"volume", "create", "csi", "web"});
  EXPECT_EQ(script().last_call(), "CreateVolume csi web {usages={}+;} {}");
  EXPECT_EQ(volume["volume"], "id-of-web");
  EXPECT_EQ(volume["volume_context"]["pool"], "a");
}

TEST_F(MountctlTest, VolumeDeleteNamesPluginAndVolume) {
  const ProgramOutcome outcome = Run({"volume", "delete", "csi", "vol-1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(script().last_call(), "DeleteVolume csi vol-1 {}");
  script().Fail("DeleteVolume", {"org.mountd1.Error.Busy", "it is staged"});
  EXPECT_EQ(Run({"volume", "delete", "csi", "vol-1"}).err,
            "mountctl: org.mountd1.Error.Busy: it is staged\n");
}

TEST_F(MountctlTest, SecretsComeFromAFileAndGoAsAnFd) {
  const TempDirectory directory;
  const std::string path = directory.File("secrets.json");
  std::ofstream(path) << R"({"key": "value"})";
  EXPECT_EQ(Run({"volume", "delete", "csi", "vol-1", "--secrets", path}).status,
            0);
  EXPECT_EQ(script().last_call(), "DeleteVolume csi vol-1 {secrets=h;}");
  for (const char* wrong : {"", "[]", R"({"key": 1})", "key=value"}) {
    std::ofstream(path) << wrong;
    const ProgramOutcome outcome =
        Run({"volume", "delete", "csi", "vol-1", "--secrets", path});
    EXPECT_EQ(outcome.status, 2) << wrong;
    EXPECT_THAT(outcome.err, HasSubstr("must contain a JSON object")) << wrong;
  }
  EXPECT_EQ(Run({"volume", "delete", "csi", "v", "--secrets", "/none"}).status,
            2);
  EXPECT_EQ(script().count("DeleteVolume"), 1U);
}

TEST_F(MountctlTest, SnapshotsGoAsProtobuf) {
  const ProgramOutcome outcome =
      Run({"volume", "snapshot", "create", "csi", "vol-1", "nightly",
           "--parameter", "a=1", "--parameter", "b="});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(script().last_call(),
            "CallController csi CreateSnapshot "
            "0a05766f6c2d3112076e696768746c7922060a016112013122050a01621200 "
            "{}");
  EXPECT_THAT(outcome.out,
              HasSubstr("snap-1    vol-1   1 GiB  2023-11-14 22:13:20 UTC  "
                        "yes"));
  const json made =
      RunJson({"volume", "snapshot", "create", "csi", "vol-1", "nightly"});
  EXPECT_EQ(made["snapshot"], "snap-1");
  EXPECT_EQ(made["creation_time"], 1'700'000'000'250'000);

  EXPECT_EQ(Run({"volume", "snapshot", "delete", "csi", "snap-1"}).status, 0);
  EXPECT_EQ(script().last_call(),
            "CallController csi DeleteSnapshot 0a06736e61702d31 {}");

  const json all = RunJson({"volume", "snapshot", "list", "csi", "--volume",
                            "vol-1", "--snapshot", "snap-1"});
  EXPECT_EQ(script().last_call(),
            "CallController csi ListSnapshots "
            "1a05766f6c2d312206736e61702d31 {}");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["snapshot"], "snap-2");
  EXPECT_EQ(all[0]["ready_to_use"], false);
  EXPECT_THAT(Run({"volume", "snapshot", "list", "csi"}).out,
              HasSubstr("snap-2    vol-2   -     1969-12-31 23:59:59 UTC  no"));
}

TEST_F(MountctlTest, AWrongVolumeCommandIsStatusTwoAndAsksNothing) {
  const std::vector<std::vector<std::string>> wrong{
      {"volume"},
      {"volume", "status"},
      {"volume", "status", "web"},
      {"volume", "status", "--plugin", "csi"},
      {"volume", "status", "--volume", "v"},
      {"volume", "status", "web", "data", "--plugin", "csi", "--volume", "v"},
      {"volume", "expand", "web", "data"},
      {"volume", "expand", "web", "data", "10Gib/s"},
      {"volume", "expand", "web", "data", "-1"},
      {"volume", "expand", "web", "data", "1.5GiB"},
      {"volume", "expand", "web", "data", "8EiB"},
      {"volume", "expand", "web", "data", "16EiB"},
      {"volume", "create", "csi", "web", "--parameter", "tier"},
      {"volume", "create", "csi", "web", "--parameter", "=fast"},
      {"volume", "create", "csi", "w", "--from-snapshot", "s", "--from-volume",
       "v"},
      {"volume", "delete", "csi"},
      {"volume", "snapshot"},
      {"volume", "snapshot", "create", "csi", "vol-1"}};
  for (const auto& arguments : wrong) {
    const ProgramOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 2) << testing::PrintToString(arguments);
    EXPECT_NE(outcome.err, "") << testing::PrintToString(arguments);
  }
  EXPECT_TRUE(script().calls().empty());
}

TEST_F(MountctlTest, PluginsHaveALineForEachOfSeveralInstances) {
  const ProgramOutcome list = Run({"plugin", "list"});
  EXPECT_THAT(list.out, HasSubstr("PROVIDER   VERSION"));
  EXPECT_THAT(list.out, HasSubstr("  instance  node  web         -          "
                                  "local.csi  0.2"));
  EXPECT_THAT(Run({"plugin", "status", "csi"}).out,
              HasSubstr("node  web         -      local.csi  0.2"));
}

}  // namespace
}  // namespace mountd::agent::test
