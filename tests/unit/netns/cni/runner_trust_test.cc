// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Input that the runner does not trust.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/naive.h"
#include "tests/unit/netns/cni/runner_fixture.h"

namespace mountd::cni {
namespace {

namespace fs = std::filesystem;

class CniTrust : public RunnerTest {
 protected:
  void SetUp() override {
    RunnerTest::SetUp();
    if (!IsSkipped()) {
      WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
    }
  }

  // True if a runner without checks runs the plugin.
  static bool NaiveRuns(const std::string& type) {
    ForgetCalls();
    Json config = Plugin(type);
    config["cniVersion"] = "1.0.0";
    WriteFile("/run/config", config.dump());
    test::RunProgram(
        {"/bin/sh", "-c",
         "CNI_COMMAND=ADD /run/plugins/" + type + " </run/config >/dev/null"});
    return CallNames().size() == 1;
  }
  // True if a user without any right may do so to the path (access(2)).
  static bool NobodyMay(int how, const char* path) {
    return test::RunProgram({"/usr/bin/setpriv", "--reuid=65534",
                             "--regid=65534", "--clear-groups", "/usr/bin/test",
                             how == W_OK ? "-w" : "-x", path})
               .status == 0;
  }

  static void ExpectNothingRun(const Json& answer, const char* code) {
    EXPECT_EQ(answer["code"], code) << answer;
    EXPECT_TRUE(CallNames().empty());
  }
};

TEST_F(CniTrust, APluginThatOthersCanWriteIsNotRun) {
  fs::permissions("/run/plugins/first", fs::perms(0775));
  ExpectNothingRun(Run("add", RequestFor("web")), "PermissionDenied");
  EXPECT_NAIVE(NaiveRuns("first"));
}

TEST_F(CniTrust, APluginOfSomebodyElseIsNotRun) {
  ASSERT_EQ(::chown("/run/plugins/first", 65534, 0), 0);
  ExpectNothingRun(Run("add", RequestFor("web")), "PermissionDenied");
  EXPECT_NAIVE(NaiveRuns("first"));
}

TEST_F(CniTrust, APluginIsNoLink) {
  fs::rename("/run/plugins/first", "/run/plugins/real");
  fs::create_symlink("real", "/run/plugins/first");
  ExpectNothingRun(Run("add", RequestFor("web")), "PermissionDenied");
  EXPECT_NAIVE(NaiveRuns("first"));
}

TEST_F(CniTrust, AnIpamPluginIsLookedAtBeforeAnythingRuns) {
  Json plugin = Plugin("first");
  plugin["ipam"] = {{"type", "second"}};
  WriteNetwork("1.conflist", Network("net", {plugin}));
  ASSERT_EQ(::chown("/run/plugins/second", 65534, 0), 0);
  ExpectNothingRun(Run("add", RequestFor("web")), "PermissionDenied");
  EXPECT_NAIVE(NaiveRuns("second"));
}

TEST_F(CniTrust, PluginsDirectoriesAreRootsAlone) {
  fs::permissions("/run/plugins", fs::perms(01777));
  ExpectNothingRun(Run("add", RequestFor("web")), "FailedPrecondition");
  const Json answer = Run("list", nullptr);
  EXPECT_EQ(answer["networks"][0]["usable"], false) << answer;
  EXPECT_NAIVE(NobodyMay(W_OK, "/run/plugins") && NaiveRuns("first"));
}

TEST_F(CniTrust, ConfigurationThatOthersCanWriteIsNotRead) {
  fs::permissions("/run/networks/1.conflist", fs::perms(0666));
  ExpectNothingRun(Run("add", RequestFor("web")), "NotFound");
  EXPECT_NAIVE(NobodyMay(W_OK, "/run/networks/1.conflist"));
  fs::permissions("/run/networks/1.conflist", fs::perms(0644));
  fs::permissions("/run/networks", fs::perms(0777));
  ExpectNothingRun(Run("add", RequestFor("web")), "NotFound");
  EXPECT_EQ(Run("list", nullptr)["unusable"][0]["file"], "/run/networks");
}

TEST_F(CniTrust, StateThatOthersCanReachIsNotUsed) {
  fs::create_directory("/run/state");
  fs::permissions("/run/state", fs::perms(0755));
  ExpectNothingRun(Run("add", RequestFor("web")), "PermissionDenied");
  EXPECT_NAIVE(NobodyMay(X_OK, "/run/state"));
}

TEST_F(CniTrust, TheHostsNamespaceIsNobodys) {
  WriteFile("/run/netns/host", "");
  ASSERT_EQ(::mount("/proc/self/ns/net", "/run/netns/host", nullptr, MS_BIND,
                    nullptr),
            0);
  ExpectNothingRun(
      Run("add", RequestFor("web"), {"--netns", "/run/netns/host"}),
      "PermissionDenied");
  // A naive runner passes the path to plugins, which then enter the host's
  // namespace.
  struct stat named = {};
  struct stat hosts = {};
  ASSERT_EQ(::stat("/run/netns/host", &named), 0);
  ASSERT_EQ(::stat("/proc/self/ns/net", &hosts), 0);
  EXPECT_NAIVE(named.st_ino == hosts.st_ino);
}

TEST_F(CniTrust, ANamespaceIsWhatItIsSaidToBe) {
  WriteFile("/run/netns/file", "");
  fs::create_symlink("web", "/run/netns/link");
  ExpectNothingRun(
      Run("add", RequestFor("web"), {"--netns", "/run/netns/file"}),
      "FailedPrecondition");
  ExpectNothingRun(
      Run("add", RequestFor("web"), {"--netns", "/run/netns/link"}),
      "InvalidArgument");
  ExpectNothingRun(
      Run("add", RequestFor("web"), {"--netns", "/run/netns/none"}),
      "NotFound");
  ExpectNothingRun(Run("add", RequestFor("web"), {"--netns-inode", "12"}),
                   "FailedPrecondition");
  // A naive runner follows the link to the namespace.
  EXPECT_NAIVE(fs::equivalent("/run/netns/link", "/run/netns/web"));
}

TEST_F(CniTrust, ARequestReachesNoPluginUnchecked) {
  const std::vector<Json> bad = {
      {{"container_id", "../web"}}, {{"container_id", ""}},
      {{"container_id", "a b"}},    {{"ifname", "eth0/.."}},
      {{"ifname", ".."}},           {{"ifname", "sixteen-bytes-it-"}},
      {{"network", "../net"}},      {{"network", ""}},
      {{"args", {{"K", "V;X=Y"}}}}, {{"args", {{"K;", "V"}}}},
      {{"netns_path", "/"}},        {{"mac", "zz:00:00:00:00:00"}},
  };
  for (const Json& change : bad) {
    Json request = RequestFor("web");
    request.update(change);
    ExpectNothingRun(Run("add", request), "InvalidArgument");
  }
  EXPECT_FALSE(fs::exists("/run/state/records/web@eth0"));
  // A naive runner makes a path of the name.
  fs::create_directories("/run/naive/records");
  WriteFile("/run/naive/records/" + std::string("../web") + "@eth0", "");
  EXPECT_NAIVE(fs::exists("/run/naive/web@eth0"));
}

TEST_F(CniTrust, ARequestIsBounded) {
  Json request = RequestFor("web");
  request["args"] = {{"K", std::string(300000, 'x')}};
  ExpectNothingRun(Run("add", request), "InvalidArgument");
}

TEST_F(CniTrust, AMissingPluginStopsTheChainBeforeItBegins) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first"), Plugin("missing")}));
  const Json answer = Run("add", RequestFor("web"));
  ExpectNothingRun(answer, "FailedPrecondition");
  EXPECT_EQ(answer["plugin"], "missing");
  EXPECT_FALSE(HasRecord("web"));
}

TEST_F(CniTrust, ABadCommandLineIsToldApart) {
  EXPECT_EQ(test::RunProgram({CNI_RUNNER, "add"}).status, 2);
  EXPECT_EQ(test::RunProgram({CNI_RUNNER, "--deadline-ms", "0", "list"}).status,
            2);
  EXPECT_EQ(test::RunProgram({CNI_RUNNER, "version"}).status, 2);
  EXPECT_EQ(test::RunProgram({CNI_RUNNER, "--state-dir", "/run/state",
                              "--netns", "/run/netns/web", "gc"})
                .status,
            2);
  EXPECT_EQ(test::RunProgram({CNI_RUNNER, "--help"}).status, 0);
}

}  // namespace
}  // namespace mountd::cni
