// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "propagation/process.h"

// Cgroups (version 2) and who is in them. They go by their ids; the paths are
// what the host's own cgroupfs says, never what a caller does, in whose mount
// namespace a cgroup may be at any path.
namespace mountd::propagation {

struct Cgroup {
  UniqueFd dir;  // O_PATH
  std::uint64_t id = 0;
  std::string path;  // "/nomad.slice/web"; "/" is the root
};

// The cgroup with this id. NotFound if it is gone; PermissionDenied unless it
// lies at or beneath a path that some rule of the config grants; NotSupported
// where cgroups of version 2 are not mounted at one of the usual places.
Result<Cgroup> OpenCgroup(const Context& context, std::uint64_t id);

// The cgroup that the process is in; the same errors.
Result<Cgroup> CgroupOf(const Context& context, const Process& process);

// Its path as the process's own directory in /proc says it. Opens no other.
Result<std::string> CgroupPathOf(const Context& context,
                                 const Process& process);

// The cgroup with this id, if the process is in it or in one beneath;
// FailedPrecondition if it is not.
Result<Cgroup> CheckWithin(const Context& context, const Process& process,
                           std::uint64_t id);

// The processes in it and in all those beneath it.
Result<Members> MembersOf(const Context& context, const Cgroup& cgroup);

Result<exec::CgroupState> InspectCgroup(const Context& context,
                                        const exec::CgroupPlan& plan);

// The cgroup of the process that `pidfd` is of, and its mount namespace.
Result<exec::CgroupState> InspectTask(const Context& context, int pidfd);

}  // namespace mountd::propagation
