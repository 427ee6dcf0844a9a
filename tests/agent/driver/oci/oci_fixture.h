// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/driver/oci/oci_driver.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver::testing {

// Runs a test's code as an ordinary user with subordinate ids, a delegated
// cgroup, a root file system and crun. Skips the test where one is missing.
class OciFixture : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Runs `body` in a child, which is the user. The child's assertions count.
  // `as_root` comes before, in the same child.
  void AsUser(
      const std::function<void()>& body,
      const std::function<void()>& as_root = [] {},
      const std::string& subordinate_ids = "nobody:200000:65536\n");

  // ---- Only within AsUser ---------------------------------------------------

  OciDriverOptions Options() const;
  std::unique_ptr<TaskDriver> MakeDriver() const { return MakeWith(Options()); }
  std::unique_ptr<TaskDriver> MakeWith(const OciDriverOptions& options) const;
  // A task that runs `script` in a shell of the machine's /usr.
  TaskConfig Shell(const std::string& name, const std::string& script) const;
  // The text of both streams of the task.
  std::string LogOf(const std::string& name) const;
  // Runs the task to its end, destroys it, and returns its output and its
  // status.
  std::string OutputOf(TaskDriver& driver, const TaskConfig& config) const;
  // All that tasks have left: directories, states of the runtime, cgroups,
  // processes, namespaces, mounts, and files of subordinate ids; "" for
  // nothing.
  std::string Leftovers() const;
  std::string Cgroup() const;
  std::string TaskDirectory(const std::string& id) const;
  std::string CgroupOf(const std::string& id) const;
  // The pids of this user's processes with this text in their command line.
  static std::vector<pid_t> ProcessesWith(const std::string& text);

  std::string path(const std::string& name) const {
    return directory_.File(name);
  }

 private:
  void MakeImage() const;

  const TempDirectory directory_;
};

// "code N", "signal N", or the error.
std::string TextOf(const Result<ExitResult>& result);

}  // namespace mountd::driver::testing
