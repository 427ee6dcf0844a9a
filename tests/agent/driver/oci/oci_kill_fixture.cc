// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/driver/oci/oci_kill_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {

using mountd::testing::Eventually;

TaskConfig KillFixture::Counted(const std::string& name) const {
  TaskConfig config =
      Shell(name,
            "touch /tmp/of-user; chown 1000:1000 /tmp/of-user; "
            "echo begun >>/local/begun; exec -a marked-task sleep 10000");
  config.entrypoint = "/bin/bash";
  config.directories.local = path("local-" + name);
  std::filesystem::create_directories(config.directories.local);
  return config;
}

int KillFixture::Begun(const TaskConfig& config) {
  std::ifstream file(config.directories.local + "/begun");
  return static_cast<int>(
      std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

bool KillFixture::BeginsOnce(const TaskConfig& config) {
  // The shell counts itself before it becomes this program.
  const std::string program = std::string("marked-task") + '\0';
  return Eventually([&] { return Begun(config) >= 1; }) &&
         Eventually([&] { return !ProcessesWith(program).empty(); }) &&
         Begun(config) == 1;
}

TaskConfig KillFixture::Begin(TaskDriver& driver,
                              const std::string& name) const {
  TaskConfig config = Counted(name);
  EXPECT_THAT(driver.StartTask(config), IsOk()) << name;
  EXPECT_TRUE(BeginsOnce(config)) << name;
  return config;
}

void KillFixture::KillAfter(
    useconds_t moment, const std::function<void(TaskDriver&)>& call) const {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto driver = MakeDriver();
    call(*driver);
    ::_exit(0);
  }
  ::usleep(moment);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

void KillFixture::UnderFire(const std::string& text, useconds_t moment,
                            const std::function<void()>& call) {
  std::latch looks{1};
  std::jthread killer([&](const std::stop_token& stop) {
    std::vector<pid_t> found;
    looks.count_down();
    while (found.empty() && !stop.stop_requested()) {
      found = ProcessesWith(text);
    }
    ::usleep(moment);
    for (const pid_t pid : found) {
      ::kill(pid, SIGKILL);
    }
  });
  looks.wait();
  call();
}

void KillFixture::KillShims() {
  for (const pid_t shim : ProcessesWith("mountd-task-shim")) {
    ::kill(shim, SIGKILL);
  }
  EXPECT_TRUE(
      Eventually([] { return ProcessesWith("mountd-task-shim").empty(); }));
}

std::string KillFixture::ProcessesOf(const TaskConfig& config) const {
  std::ifstream procs(CgroupOf(config.id) + "/cgroup.procs");
  return {std::istreambuf_iterator<char>(procs), {}};
}

}  // namespace mountd::driver::testing
