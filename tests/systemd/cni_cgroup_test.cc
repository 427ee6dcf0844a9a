// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A real systemd delegates the runner's cgroup, and CNI plugins get one beneath
// it. tests/systemd/boot has booted this systemd for this program alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace mountd::cni {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::json;

constexpr char kLog[] = "/srv/cni/log";

void WriteFile(const std::string& path, const Json& json) {
  std::ofstream(path) << json.dump();
}

class CniCgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // The test uses the whole machine that it runs on.
    ASSERT_NE(std::getenv("MOUNTD_BOOTED"), nullptr)
        << "run it by tests/systemd/boot";
    fs::remove_all("/srv/cni");
    fs::create_directories("/srv/cni/networks");
    fs::create_directories("/srv/cni/plugins");
    fs::copy_file(CNI_FAKE_PLUGIN, "/srv/cni/plugins/fake");
    fs::permissions("/srv/cni/plugins/fake", fs::perms(0755));
    WriteFile("/srv/cni/networks/1.conflist",
              {{"name", "net"},
               {"cniVersion", "1.1.0"},
               {"plugins", {{{"type", "fake"}, {"fake", {{"log", kLog}}}}}}});
    WriteFile("/srv/cni/request", {{"network", "net"}});
  }

  // Returns the cgroup of a plugin whose runner is a service with these
  // properties.
  static std::string PluginsCgroup(const std::vector<std::string>& properties) {
    std::vector<std::string> command = {
        "/usr/bin/systemd-run",
        "--quiet",
        "--wait",
        "--collect",
        "--unit=cni-test",
        "--property=StandardInput=file:/srv/cni/request"};
    for (const std::string& property : properties) {
      command.push_back("--property=" + property);
    }
    command.insert(command.end(),
                   {CNI_RUNNER, "--config-dir", "/srv/cni/networks",
                    "--plugin-dir", "/srv/cni/plugins", "status"});
    const auto outcome = test::RunProgram(command);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::ifstream log(kLog);
    std::string line;
    std::getline(log, line);
    const Json call = Json::parse(line, nullptr, false);
    return call.is_object() ? call.value("cgroup", "") : "";
  }
};

TEST_F(CniCgroupTest, IsMadeWhereSystemdHasDelegated) {
  const std::string cgroup = PluginsCgroup({"Delegate=yes"});
  EXPECT_NE(cgroup.find("/cni-test.service/cni-"), std::string::npos) << cgroup;
}

TEST_F(CniCgroupTest, IsNotMadeWhereItHasNot) {
  const std::string cgroup = PluginsCgroup({"Delegate=no"});
  EXPECT_TRUE(cgroup.ends_with("/cni-test.service")) << cgroup;
}

TEST_F(CniCgroupTest, NeedsNoCapabilityAndNoClone3) {
  const std::string cgroup = PluginsCgroup(
      {"Delegate=yes", "CapabilityBoundingSet=", "RestrictNamespaces=yes",
       "NoNewPrivileges=yes"});
  EXPECT_NE(cgroup.find("/cni-test.service/cni-"), std::string::npos) << cgroup;
}

TEST_F(CniCgroupTest, IsDoneWithoutWhereCgroupsCannotBeWritten) {
  const std::string cgroup =
      PluginsCgroup({"Delegate=yes", "ProtectControlGroups=yes"});
  EXPECT_TRUE(cgroup.ends_with("/cni-test.service")) << cgroup;
}

}  // namespace
}  // namespace mountd::cni
