// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/base/result.h"

namespace mountd::exec {

// Before the configuration is parsed: no capability is effective, none but
// those of DropPrivileges (and CAP_SETPCAP, which that needs) can become so
// again, and nothing that is executed gains any (no_new_privs).
Result<void> LayPrivilegesDown();

// Reduces this process to what the executor needs, for good: the capabilities
// CAP_SYS_ADMIN (mounts, namespaces), CAP_NET_ADMIN (links, rules),
// CAP_DAC_READ_SEARCH (a source below a directory that is closed to root, a
// cgroup by its id), CAP_CHOWN (an allocation's directory for its owner's
// group, a plugin's back to root), CAP_SETUID and CAP_SETGID (the maps of
// idmapped mounts), CAP_SYS_PTRACE (which files of a mount processes of other
// users have open) and CAP_SYS_CHROOT (entering a container's mount namespace),
// in no other set than permitted and effective, an empty bounding set apart
// from them, and no_new_privs. With `runs_cni` CAP_NET_RAW stays permitted,
// if it was, and is not effective: CNI's plugins send gratuitous ARP, and get
// no more than who starts them is permitted. PermissionDenied if it does not
// hold one of the others.
Result<void> DropPrivileges(bool runs_cni);

// capabilities(7) bits.
std::uint64_t EffectiveCapabilities();

}  // namespace mountd::exec
