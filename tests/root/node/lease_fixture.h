// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/node/node_fixture.h"

namespace mountd::testing {

inline constexpr char kHierarchy[] = "/sys/fs/cgroup";
inline constexpr char kImage[] = "/run/block.img";
inline constexpr char kBlock[] = "/run/host/block";

// Runs a program to its end. Returns its exit status, or 128 after a signal.
int RunIt(const std::vector<std::string>& command);
std::string TextIn(const std::string& path);

// Owns a node, an ext4 on a loop device as the host volume "block", the
// allocation "web" with a cgroup, and a container of crun's in that cgroup.
// Skips the test where one of these cannot be made.
class LeaseFixture : public NodeFixture {
 protected:
  // With `rootless` the agent's user starts crun, without any privilege: that
  // user owns the cgroups, as systemd's Delegate= gives them, and the container
  // has a user namespace in which root is that user.
  explicit LeaseFixture(bool rootless) : rootless_(rootless) {}

  void SetUp() override;
  void TearDown() override;

  // A rule's or a section's further lines of the configuration.
  virtual std::string RuleText() const { return ""; }
  // Prepares the allocation "web" with its cgroup.
  void Prepare(bool lease_required);
  // Mounts the host volume "block" for the task as `name`.
  std::string Bind(const std::string& name);

  // Starts a container that appends a number to the file "counter" in each of
  // the directories, again and again, and waits until it is on the disk. Each
  // pair is a path on the host and one in the container.
  void StartContainer(
      const std::vector<std::pair<std::string, std::string>>& binds);
  int DeleteContainer();
  // True if the task still writes to the file system at `directory`.
  static bool Writes(const std::string& directory = kBlock);
  static bool StartsToWrite(const std::string& directory = kBlock);

  // Acquires the lease of "web". A process of its own has the pipe's write end,
  // as a control plane's agent has.
  void Acquire(const std::string& stop_tasks, bool keep = false);
  // Ends the holder, as the OOM killer would.
  void EndHolder();
  std::optional<agent::Fence> AwaitFence();

  // Runs `body` in a process of the agent's user, in the agent's own cgroup.
  // Returns its answer.
  int AsAgent(const std::function<int()>& body) const;
  std::string CgroupPath() const { return kHierarchy + top_ + "/web"; }
  std::string AgentsCgroup() const { return kHierarchy + top_ + "/agent"; }
  bool IsCgroup(const std::string& state) const;  // "populated 0", "frozen 1"
  // The naive fence: it unmounts what the agent had, and is done.
  bool NaiveFenceLosesData() const;

  std::string path_;  // of the last mount of "block"

 private:
  void MakeCgroups();
  static void MakeBlock();
  std::string ConfigText() const;
  int RunCrun(std::vector<std::string> arguments) const;

  const bool rootless_;
  std::string top_;  // the tests' cgroup, as "/mountd-lease-1234"
  pid_t holder_ = -1;
};

}  // namespace mountd::testing
