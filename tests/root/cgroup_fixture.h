// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/root/executor_fixture.h"

namespace mountd::testing {

// A process that has run the test's function, and now waits for its end.
struct Child {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Runs the executor on a host with version 2 cgroups at /sys/fs/cgroup, and
// grants it the test's own cgroup. Makes that cgroup in the machine's
// hierarchy, because there is only one, and removes it with its processes.
// Skips the test where it cannot make one.
class CgroupFixture : public ExecutorFixture {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Makes a cgroup beneath the test's own ("" is the test's own itself), which
  // is `top()` + "/" + name in the hierarchy. Returns its id.
  std::uint64_t MakeCgroup(const std::string& name);
  std::uint64_t IdOf(const std::string& name) const;
  const std::string& top() const { return top_; }  // "/mountd-test-1234"

  // Forks a child that is in the cgroup `name`, runs `body`, and waits. `body`
  // returns whether all went well. `flags` are those of clone(2): CLONE_NEWPID
  // makes the child the first of a pid namespace of its own.
  Child& Spawn(const std::string& name, const std::function<bool()>& body,
               unsigned flags = 0);
  // Forks such a child outside the test's cgroups.
  Child& SpawnOutside(const std::function<bool()>& body, unsigned flags = 0);
  void End(Child& child);

 private:
  Child& Fork(const std::string& procs, const std::function<bool()>& body,
              unsigned flags);

  std::string top_;
  std::vector<std::string> cgroups_;  // names, in the order of creation
  std::vector<std::unique_ptr<Child>> children_;
};

}  // namespace mountd::testing
