// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-nomad-volume as a Nomad client without root starts it: with a whole
// mountd and csi-local, and with kills between its steps.
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/nomad/host_volume_calls.h"
#include "agent/nomad/volume_request.h"
#include "tests/csi/process.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kVolumes[] = "/run/agent/host_volumes";
constexpr char kId[] = "02eb1d8e-945e-50ee-7640-68b92f622870";
constexpr char kSocket[] = "/run/mountd/base/p/csi-local/csi.sock";
constexpr std::int64_t kSize = 1 << 20;
constexpr char kConfig[] = R"(
[host_volume.shared]
path = "/run/shared"
[[rule]]
users = ["agent"]
host_volumes = ["shared"]
plugins = ["csi-local"]
register_plugins = ["csi-local"]
control_plugins = ["csi-local"]
alloc_roots = ["/run/agent/host_volumes"]
)";

class NomadVolume : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    for (const char* made : {"/run/shared", "/run/agent", kVolumes}) {
      fs::create_directory(made);
      ASSERT_EQ(::chown(made, kAgentUid, kAgentUid), 0);
    }
    StartNode(kConfig);
    ASSERT_THAT(client_->RegisterPlugin({.plugin = "csi-local",
                                         .type = agent::PluginType::kMonolith}),
                IsOk());
    plugin_ =
        Process({CSI_LOCAL, "--endpoint", std::string("unix://") + kSocket,
                 "--data-dir", "/var/lib/csi-local", "--node-id", "here"});
    ASSERT_TRUE(Eventually([this] {
      const auto plugin = client_->GetPlugin("csi-local");
      return plugin && plugin->state == "healthy";
    }));
    request_.operation = "create";
    request_.volumes_dir = kVolumes;
    request_.id = kId;
    request_.least_bytes = request_.most_bytes = kSize;
    request_.parameters = {{"kind", "tmpfs"}};
  }
  void TearDown() override {
    plugin_ = Process();
    NodeFixture::TearDown();
  }

  // Runs one operation in a child, as the client's user. The child ends as by
  // SIGKILL at the call with this number, before or after mountd's answer; 0:
  // never. Returns "Ok", "killed" or the error.
  std::string RunOperation(bool create, int last_call = 0, bool after = false) {
    int report[2];
    EXPECT_EQ(::pipe(report), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(report[0]);
      const std::string text = RunAsAgent(create, last_call, after);
      const bool told = ::write(report[1], text.data(), text.size()) >= 0;
      ::_exit(told ? 0 : 1);
    }
    ::close(report[1]);
    std::string text(4096, '\0');
    const ssize_t size = ::read(report[0], text.data(), text.size());
    ::close(report[0]);
    ::waitpid(child, nullptr, 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return size > 0 ? text : "killed";
  }
  std::string RunAsAgent(bool create, int last_call, bool after) {
    int calls = 0;
    agent::ClientOptions options;
    options.on_call = [&](std::string_view method) {
      const bool is_answer = method.empty();
      calls += is_answer ? 0 : 1;
      if (calls == last_call && is_answer == after) {
        ::_exit(9);
      }
    };
    auto client = node_->Connect(options);
    if (::setgroups(0, nullptr) != 0 ||
        ::setresgid(kAgentUid, kAgentUid, kAgentUid) != 0 ||
        ::setresuid(kAgentUid, kAgentUid, kAgentUid) != 0 || !client) {
      return "no client";
    }
    nomad::HostVolumeCalls volume(*client, request_);
    if (!create) {
      const Result<void> deleted = volume.Delete();
      return deleted ? "Ok" : deleted.error().Message();
    }
    const auto created = volume.Create();
    if (!created) {
      return created.error().Message();
    }
    return created->path == Data() && created->bytes == kSize ? "Ok"
                                                              : created->path;
  }

  static std::string Data() {
    return std::string(kVolumes) + "/" + kId + "/volume/nomad/data";
  }
  void ExpectNothing() {
    EXPECT_EQ(MountPointsUnder(kVolumes).size(), 0U);
    EXPECT_TRUE(fs::is_empty(kVolumes));
    const auto volumes = client_->ListPluginVolumes("csi-local");
    ASSERT_THAT(volumes, IsOk());
    EXPECT_TRUE(volumes->volumes.empty());
    const auto allocations = client_->ListAllocations();
    ASSERT_THAT(allocations, IsOk());
    EXPECT_TRUE(allocations->empty());
  }

  nomad::HostVolumeRequest request_;
  Process plugin_;
};

TEST_F(NomadVolume, IsThereWithItsSizeAndItsOwnerUntilItIsDeleted) {
  request_.mode = 0750;
  ASSERT_EQ(RunOperation(true), "Ok");
  struct stat seen {};
  ASSERT_EQ(::stat(Data().c_str(), &seen), 0);
  EXPECT_EQ(seen.st_uid, kAgentUid);
  EXPECT_EQ(seen.st_mode & 07777U, 0750U);
  std::ofstream(Data() + "/file") << "text";
  ASSERT_EQ(RunOperation(true), "Ok") << "as at the client's next start";
  EXPECT_TRUE(fs::exists(Data() + "/file"));
  EXPECT_EQ(MountPointsUnder(kVolumes).size(), 1U);
  // The size is a quota.
  std::ofstream large(Data() + "/large");
  large << std::string(2 * kSize, 'x') << std::flush;
  EXPECT_FALSE(large);
  large.close();
  ASSERT_EQ(RunOperation(false), "Ok");
  ExpectNothing();
  EXPECT_EQ(RunOperation(false), "Ok") << "the same call again";
  ExpectNothing();
}

TEST_F(NomadVolume, ItsOwnerIsTheUserAlone) {
  request_.uid = 200033;
  EXPECT_THAT(RunOperation(true),
              ::testing::HasSubstr("must be the client's own user, 60002"));
  ExpectNothing();
  request_.uid = kAgentUid;
  request_.gid = kAgentUid;
  request_.mode = 01777;
  ASSERT_EQ(RunOperation(true), "Ok");
  struct stat seen {};
  ASSERT_EQ(::stat(Data().c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 07777U, 01777U);
  ASSERT_EQ(RunOperation(false), "Ok");
  request_.gid = 0;
  EXPECT_THAT(RunOperation(true), ::testing::HasSubstr("chown"));
  ASSERT_EQ(RunOperation(false), "Ok");
  ExpectNothing();
}

TEST_F(NomadVolume, AKillAtAnyCallLosesNothing) {
  for (const bool after : {false, true}) {
    for (int call = 1;; ++call) {
      SCOPED_TRACE(std::to_string(call) + (after ? " after" : " before"));
      const std::string first = RunOperation(true, call, after);
      ASSERT_EQ(RunOperation(true), "Ok");
      EXPECT_EQ(MountPointsUnder(kVolumes).size(), 1U);
      RunOperation(false, call, after);
      ASSERT_EQ(RunOperation(false), "Ok");
      ExpectNothing();
      if (first != "killed") {
        EXPECT_EQ(first, "Ok");
        EXPECT_GT(call, 4);
        break;
      }
      // Nomad deletes a volume that was never whole, too.
      ASSERT_EQ(RunOperation(true, call, after), "killed");
      ASSERT_EQ(RunOperation(false), "Ok");
      ExpectNothing();
    }
  }
}

TEST_F(NomadVolume, InUseIsNotDeleted) {
  ASSERT_EQ(RunOperation(true), "Ok");
  {
    const std::ofstream open(Data() + "/file");
    EXPECT_THAT(RunOperation(false),
                ::testing::HasSubstr("is used by process"));
    EXPECT_EQ(MountPointsUnder(kVolumes).size(), 1U);
  }
  EXPECT_EQ(RunOperation(false), "Ok");
  ExpectNothing();
}

TEST_F(NomadVolume, ASizeThatCannotBeIsRefusedInWords) {
  request_.least_bytes = 1;
  request_.most_bytes = 2;
  EXPECT_THAT(RunOperation(true), ::testing::HasSubstr("OUT_OF_RANGE"));
  EXPECT_TRUE(fs::is_empty(kVolumes));
}

TEST_F(NomadVolume, TheProgramAnswersInJson) {
  const std::string out = "/run/agent/out";
  const std::string command =
      std::string("exec env -i DHV_OPERATION=create DHV_VOLUMES_DIR=") +
      kVolumes + " DHV_VOLUME_ID=" + kId +
      " DHV_VOLUME_NAME='../x\ny' DHV_CAPACITY_MIN_BYTES=4096 "
      "DHV_CAPACITY_MAX_BYTES=8192 DHV_PARAMETERS='{\"kind\":\"tmpfs\"}' " +
      MOUNTD_NOMAD_VOLUME + " create >" + out;
  Process program({"/usr/bin/setpriv", "--reuid=60002", "--regid=60002",
                   "--clear-groups", "/bin/sh", "-c", command});
  EXPECT_EQ(program.Wait(), 0);
  std::string line;
  std::getline(std::ifstream(out), line);
  EXPECT_EQ(line, R"({"bytes":4096,"path":")" + Data() + R"("})");
}

}  // namespace
}  // namespace mountd::testing
