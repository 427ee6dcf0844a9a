// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "propagation/container_identity.h"

// Containers that others have made, and what is done in their mount namespaces.
// The executor itself enters none: a child does, which ends with what it did
// there, or is killed at a deadline where a container's file system hangs.
namespace mountd::propagation {

struct Container {
  Process process;                    // that is in it
  UniqueFd mounts;                    // its mount namespace
  std::uint64_t mount_namespace = 0;  // the inode of that
  std::string cgroup;  // path of the one that the process is in, or beneath
  ForeignRoots roots;  // of OpenContainer alone: that its own may not be
};

// The container of the process that `pidfd` is of. PermissionDenied unless some
// rule of the config grants containers in `plan.cgroup`, and a tmpfs there if
// it is for one; FailedPrecondition if that is not in that cgroup or beneath,
// has no mount namespace of its own (it is this executor's, or init's), or one
// that another user namespace owns: there the flags of what is attached are not
// locked, as those of copies are (mount_namespaces(7)); or if it is no
// container (container_identity.h). Its root is still to be looked at.
Result<Container> OpenContainer(const Context& context, int pidfd,
                                const exec::ContainerPlan& plan, bool tmpfs);

// A container with this mount namespace, if a process of `cgroup` or beneath is
// in it yet.
Result<std::optional<Container>> FindContainer(const Context& context,
                                               std::uint64_t mount_namespace,
                                               std::uint64_t cgroup);

// FailedPrecondition unless the process is still in that mount namespace and
// cgroup. Opens no path: also to be called in the container.
Result<void> CheckStill(const Context& context, const Container& container);

// What `body` answers that runs in a child in the container's mount namespace,
// where a path leads from its root on, with a context that inspects the mounts
// there. Of this process's fds it has the container's and those in `kept` (-1
// is none). DeadlineExceeded if it was killed.
Result<exec::MountState> InContainer(
    const Context& context, const Container& container,
    std::span<const int> kept, const std::string& object,
    const std::function<Result<exec::MountState>(const Context&)>& body);

}  // namespace mountd::propagation
