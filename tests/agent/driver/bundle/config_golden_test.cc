// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "agent/driver/bundle/seccomp.h"
#include "tests/agent/driver/bundle/bundles.h"
#include "tests/golden/golden.h"
#include "tests/support/matchers.h"

namespace mountd::driver {
namespace {

using Json = nlohmann::json;

void ExpectFile(const std::string& name, const std::string& text) {
  const bool update = std::getenv("UPDATE_GOLDEN") != nullptr;
  const std::string path = std::string(MOUNTD_GOLDEN) + "/" + name;
  EXPECT_EQ(test::CompareWithGolden(path, text, update), "");
  if (update) {
    GTEST_SKIP() << "wrote " << path;
  }
}

// The filter has a file of its own, because it is the same in all.
std::string WithoutFilter(const ContainerConfig& config) {
  const auto text = ConfigFile(config);
  EXPECT_THAT(text, IsOk());
  Json file = text ? Json::parse(*text) : Json();
  EXPECT_EQ(file["linux"]["seccomp"],
            SeccompFor(config.process.capabilities.bounding));
  file["linux"].erase("seccomp");
  return file.dump(1) + "\n";
}

TEST(DriverBundleGolden, Plain) {
  ExpectFile("plain.json", WithoutFilter(PlainContainer()));
}

ContainerConfig FullContainer() {
  ContainerConfig config = PlainContainer();
  ContainerProcess& process = config.process;
  process.args = {"/usr/sbin/httpd", "-f", "-p", "80"};
  process.env = {{"PATH", "/usr/bin:/bin"}, {"HOME", "/"}, {"TERM", "xterm"}};
  process.cwd = "/srv";
  process.user = {1000, 1000, {27, 5}};
  process.terminal = true;
  process.console_size = {24, 80};
  process.rlimits = {{"RLIMIT_NOFILE", 1024, 4096}};
  process.capabilities = *CapabilitiesWith({{"net_raw"}, {"setfcap"}});
  config.read_only_rootfs = true;
  config.mounts = {{"/run/mountd/base/web/app/data", "/var/lib/data", false,
                    false, TaskPropagation::kPrivate},
                   {"/run/mountd/base/web/app/shared", "/shared", true, true,
                    TaskPropagation::kHostToTask}};
  config.inbox = {
      "/run/mountd/base/web/app/inbox", "/inbox", {{"/late", "late"}}};
  config.cgroups_path = "/user.slice/tasks/web/app";
  ContainerResources& resources = config.resources;
  resources.memory_max = 64U << 20U;
  resources.memory_swap_max = 16U << 20U;
  resources.memory_low = 32U << 20U;
  resources.memory_oom_group = true;
  resources.cpu_weight = 50;
  resources.cpu_quota_us = 50000;
  resources.cpu_period_us = 100000;
  resources.pids_max = 64;
  resources.cpuset_cpus = "0-1";
  return config;
}

TEST(DriverBundleGolden, Full) {
  ExpectFile("full.json", WithoutFilter(FullContainer()));
}

TEST(DriverBundleGolden, Exec) {
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ProcessFile(FullContainer().process));
  ExpectFile("exec.json", text);
}

#if defined(__x86_64__)
TEST(DriverBundleGolden, Filter) {
  ExpectFile("seccomp.json", SeccompFor(DefaultCapabilities()).dump(1) + "\n");
}
#endif

}  // namespace
}  // namespace mountd::driver
