// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mountd/plan/task_plans.h"
#include "propagation/ground/process.h"

// Cgroups of version 2 and the processes in them. This file names cgroups by id
// and reads their paths from the host's own cgroupfs. This file never uses a
// caller's path, because a cgroup may have any path in the caller's mount
// namespace.
namespace mountd::propagation {

struct Cgroup {
  UniqueFd dir;  // O_PATH
  std::uint64_t id = 0;
  std::string path;  // "/nomad.slice/web"; "/" is the root
};

// Opens the cgroup with this id. NotFound if the cgroup is gone.
// PermissionDenied unless it lies at or beneath a path that some rule of the
// config grants. NotSupported if cgroups of version 2 are mounted at none of
// the usual places.
Result<Cgroup> OpenCgroup(const Context& context, std::uint64_t id);

// As OpenCgroup, but also opens a cgroup that no rule grants. The caller reads
// only whether the cgroup has processes before it asks the rules.
Result<Cgroup> OpenAnyCgroup(const Context& context, std::uint64_t id);

// As OpenCgroup, but answers nothing instead of PermissionDenied if neither the
// cgroup nor a cgroup beneath it has a process.
Result<std::optional<Cgroup>> OpenUnlessEmpty(const Context& context,
                                              std::uint64_t id);

struct CgroupEvents {
  bool populated = false;  // it or a cgroup beneath it has a process
  bool frozen = false;
};

// Reads cgroup.events. A cgroup that has been removed since is not populated,
// and is frozen. The root cgroup is populated.
Result<CgroupEvents> ReadEvents(const Context& context, const Cgroup& cgroup);

// Opens the cgroup that the process is in. The errors are those of OpenCgroup.
Result<Cgroup> CgroupOf(const Context& context, const Process& process);

// Returns the path of the process's cgroup, read from the process's own
// directory in /proc. Opens no other path.
Result<std::string> CgroupPathOf(const Context& context,
                                 const Process& process);

// Opens the cgroup with this id. FailedPrecondition unless the process is in
// this cgroup or in one beneath it.
Result<Cgroup> CheckWithin(const Context& context, const Process& process,
                           std::uint64_t id);

// Returns the processes in the cgroup and in all cgroups beneath it. `all_seen`
// is false if there are too many, and if the cgroup is threaded, because a
// threaded cgroup does not list its processes.
Result<Members> MembersOf(const Context& context, const Cgroup& cgroup);

Result<exec::CgroupState> InspectCgroup(const Context& context,
                                        const exec::CgroupPlan& plan);

// Returns the cgroup and the mount namespace of the process that `pidfd` refers
// to.
Result<exec::CgroupState> InspectTask(const Context& context, int pidfd);

}  // namespace mountd::propagation
