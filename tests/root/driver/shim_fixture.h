// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/driver/protocol/launch.h"
#include "agent/driver/protocol/shim_connection.h"
#include "mountd/base/unique_fd.h"
#include "tests/root/unshared.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {

inline constexpr uid_t kTaskUser = 60002;
inline constexpr std::chrono::milliseconds kSoon{60'000};

// Returns "code N", "signal N", either with " oom", or the error.
std::string ShimExitOf(const Result<shim::Answer>& answer);

// Owns a delegated cgroup, a user namespace with a network namespace, and tasks
// of mountd-task-shim in them. All of it belongs to an ordinary user, except
// that the test is root and so may look. Skips the test where one of these
// cannot be made.
class ShimFixture : public PrivateNamespaces {
 protected:
  // One task. The directory is "/run/tasks/NAME".
  struct Task {
    std::string name;
    std::string directory;
    UniqueFd directory_fd;
    std::optional<shim::ShimConnection> shim;  // the first connection
  };

  void SetUp() override;
  void TearDown() override;

  // The launch of a task that runs `script` in a shell. A test may change it.
  // `directory` and all that the launch borrows belong to the fixture.
  shim::Launch MakeLaunch(const Task& task, const std::string& script);
  // The same with an overlay over the image as the root file system.
  shim::Launch MakeOverlayLaunch(const Task& task, const std::string& script);
  Task MakeTask(const std::string& name);
  // Starts a shim, and waits for the container.
  Task Create(const std::string& name, const std::string& script);
  void Start(Task& task);
  Task Run(const std::string& name, const std::string& script);

  // Opens another connection to the task's shim.
  static shim::ShimConnection Connect(const Task& task);
  static std::string ExitOf(const Result<shim::Answer>& answer) {
    return ShimExitOf(answer);
  }
  static std::string WaitFor(const Task& task);
  static Result<shim::Answer> Ask(const Task& task, shim::Kind kind);
  static Result<shim::Answer> Stop(const Task& task, int signal,
                                   std::uint64_t timeout_ms);
  static std::string Delete(const Task& task, bool force);
  static pid_t InitOf(const Task& task);
  static pid_t PeerOf(const shim::ShimConnection& connection);
  static pid_t ShimOf(const Task& task) { return PeerOf(Connect(task)); }

  std::string CgroupOf(const std::string& name) const;
  bool IsPopulated(const std::string& name) const;
  // Returns whether the task's cgroup has that limit now.
  bool LimitMemory(const std::string& name, const std::string& bytes) const;
  static bool IsInstalled(const std::string& program);
  std::string runtime_ = "crun";
  // False: config.json names another cgroup than the task's to runc.
  bool names_cgroup_ = true;

 private:
  void MakeCgroups();
  void MakeNamespaces();
  void MakeImage();
  shim::Launch LaunchWithoutRoot(const Task& task, const std::string& script);

  std::string top_;
  std::vector<std::string> cgroups_;
  std::vector<UniqueFd> cgroup_fds_;
  UniqueFd user_namespace_;
  UniqueFd network_namespace_;
};

}  // namespace mountd::testing
