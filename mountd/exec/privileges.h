// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/base/result.h"

namespace mountd::exec {

// Lays down privileges before the configuration is parsed. Afterwards no
// capability is effective. Only the capabilities that DropPrivileges keeps, and
// CAP_SETPCAP for DropPrivileges itself, can become effective again. Programs
// that this process executes gain no capability (no_new_privs).
Result<void> LayPrivilegesDown();

// Reduces this process for good to the capabilities that the executor needs:
// CAP_SYS_ADMIN (mounts, namespaces), CAP_NET_ADMIN (links, rules),
// CAP_DAC_READ_SEARCH (a source below a directory that is closed to root, a
// cgroup by its id), CAP_CHOWN (an allocation's directory for its owner's
// group, a plugin's back to root), CAP_SETUID and CAP_SETGID (the maps of
// idmapped mounts), CAP_SYS_PTRACE (which files of a mount processes of other
// users have open) and CAP_SYS_CHROOT (entering a container's mount namespace).
// These capabilities are permitted and effective, and in no other set. The
// bounding set holds nothing else, and no_new_privs is set. With `runs_cni`
// CAP_NET_RAW stays permitted if it was, but not effective, because CNI's
// plugins send gratuitous ARP and get no more than their parent is permitted.
// PermissionDenied if the process lacks one of the other capabilities.
Result<void> DropPrivileges(bool runs_cni);

// Returns the effective capabilities as capabilities(7) bits.
std::uint64_t EffectiveCapabilities();

}  // namespace mountd::exec
