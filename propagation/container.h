// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "propagation/container_identity.h"

// Containers that a runtime made, and work in their mount namespaces. The
// executor itself enters no container: a child enters it, works and ends. The
// executor kills the child at a deadline if a file system of the container
// hangs.
namespace mountd::propagation {

struct Container {
  Process process;                    // one that is in the container
  UniqueFd mounts;                    // the container's mount namespace
  std::uint64_t mount_namespace = 0;  // the inode of `mounts`
  std::string cgroup;  // path; the process is in this cgroup or beneath it
  ForeignRoots roots;  // set by OpenContainer only: the container's own root
                       // must be none of these
};

// Opens the container of the process that `pidfd` refers to. The caller still
// has to check the container's root (OpenOwnRoot).
//
// PermissionDenied unless some rule of the config grants containers in
// `plan.cgroup`, and a tmpfs there if `tmpfs` is set. FailedPrecondition if the
// process
//   - is not in that cgroup or beneath it
//   - has the mount namespace of this executor or of init
//   - has a mount namespace that another user namespace owns, because there the
//     flags of an attached mount are not locked, as those of copies are
//     (mount_namespaces(7))
//   - is in no container (container_identity.h).
Result<Container> OpenContainer(const Context& context, int pidfd,
                                const exec::ContainerPlan& plan, bool tmpfs);

// Returns the container with this mount namespace, if a process of `cgroup` or
// of a cgroup beneath is still in it.
Result<std::optional<Container>> FindContainer(const Context& context,
                                               std::uint64_t mount_namespace,
                                               std::uint64_t cgroup);

// FailedPrecondition unless the process is still in that mount namespace and
// cgroup. Opens no path, so the child may call this inside the container.
Result<void> CheckStill(const Context& context, const Container& container);

// Runs `body` in a child in the container's mount namespace and returns its
// answer. Paths in `body` start at the namespace's root, and its context
// inspects the mounts there. The child keeps only the container's descriptors
// and those in `kept` (-1 is skipped). DeadlineExceeded if the executor killed
// the child.
Result<exec::MountState> InContainer(
    const Context& context, const Container& container,
    std::span<const int> kept, const std::string& object,
    const std::function<Result<exec::MountState>(const Context&)>& body);

}  // namespace mountd::propagation
