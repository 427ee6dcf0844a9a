// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "propagation/ground/process.h"

// Tells a container from a process that only has a mount namespace of its own,
// as most services do (systemd.exec(5), PrivateTmp=). A container has
//
//   - a pid namespace of its own that the host's root made: not the one of this
//     executor, of init or of the caller
//   - a mount namespace that the caller is not in
//   - a root directory of its own: not this executor's, init's or the caller's
//     under any path, nor another mount of the same directory
//
// A process that lacks one of these may run a setuid program of its own or of
// the host. The caller could mount its own files over files that the program
// reads.
namespace mountd::propagation {

// The root directories that a container's root must differ from.
struct ForeignRoots {
  std::vector<exec::FileFacts> files;
  MountFacts host;  // the mount that this executor's root is in
};

// Compares the namespaces of `process` with the host's and with those of the
// process `caller`. Returns the root directories that its root must differ
// from. `mount_namespace` is the inode of the mount namespace of `process`.
// FailedPrecondition if the process is in no container, or if the caller has
// ended.
Result<ForeignRoots> CheckIdentity(const Context& context,
                                   const Process& process,
                                   std::uint64_t mount_namespace,
                                   std::uint32_t caller);

// Opens the root of the container's mount namespace, where its paths start.
// Runs in the child. FailedPrecondition if that root is one of `roots`.
Result<UniqueFd> OpenOwnRoot(const Context& context, const ForeignRoots& roots,
                             const std::string& object);

}  // namespace mountd::propagation
