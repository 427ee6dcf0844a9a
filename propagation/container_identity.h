// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "propagation/process.h"

// Tells a container from a process that only has a mount namespace of its own,
// as most services do (systemd.exec(5), PrivateTmp=). A container has
//
//   - a pid namespace of its own, which root of the host made: not this
//     executor's, init's or the caller's
//   - a mount namespace that the caller is not in
//   - a root directory of its own: not this executor's, init's or the caller's,
//     under whatever path, nor any other mount of what these show
//
// Whoever may mount over the files of a process without these may well run a
// setuid program with them: its own, or the host's.
namespace mountd::propagation {

// What a container's root directory is compared with.
struct ForeignRoots {
  std::vector<exec::FileFacts> files;
  MountFacts host;  // the mount that this executor's root is in
};

// Compares the namespaces of `process` with the host's and with those of the
// process `caller`, and returns the roots to compare its root with.
// FailedPrecondition if they say that it is no container, or if the caller has
// ended. `mount_namespace` is the inode of the process's.
Result<ForeignRoots> CheckIdentity(const Context& context,
                                   const Process& process,
                                   std::uint64_t mount_namespace,
                                   std::uint32_t caller);

// In the container: opens the root of its mount namespace, from which its paths
// are resolved. FailedPrecondition if it is one of `roots`.
Result<UniqueFd> OpenOwnRoot(const Context& context, const ForeignRoots& roots,
                             const std::string& object);

}  // namespace mountd::propagation
