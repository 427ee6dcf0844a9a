// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/root/executor_fixture.h"

namespace mountd::testing {

// A process that was told what to do, and now waits for its end.
struct Child {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// The executor on a host with cgroups of version 2 at /sys/fs/cgroup, of which
// the test's own is granted. It is made in the machine's hierarchy, as there is
// but one, and removed with the processes in it. Skipped where none can be
// made.
class CgroupFixture : public ExecutorFixture {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Makes a cgroup beneath the test's own ("" is that itself), which is
  // `top()` + "/" + name in the hierarchy; its id.
  std::uint64_t MakeCgroup(const std::string& name);
  std::uint64_t IdOf(const std::string& name) const;
  const std::string& top() const { return top_; }  // "/mountd-test-1234"

  // A child that is in the cgroup `name`, has run `body`, and waits. `body`
  // answers whether all went well. `flags` are of clone(2): CLONE_NEWPID makes
  // it the first of a pid namespace of its own.
  Child& Spawn(const std::string& name, const std::function<bool()>& body,
               unsigned flags = 0);
  // The same in none of the test's cgroups.
  Child& SpawnOutside(const std::function<bool()>& body, unsigned flags = 0);
  void End(Child& child);

 private:
  Child& Fork(const std::string& procs, const std::function<bool()>& body,
              unsigned flags);

  std::string top_;
  std::vector<std::string> cgroups_;  // names, in the order they were made
  std::vector<std::unique_ptr<Child>> children_;
};

}  // namespace mountd::testing
