// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/shim/root_file_system.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>

namespace mountd::shim {
namespace {

const char* BecomeRootOf(int user_namespace) {
  if (::setns(user_namespace, CLONE_NEWUSER) != 0) {
    return "join the user namespace";
  }
  // EPERM: the namespace has one id only, and its groups cannot change.
  if (::setgroups(0, nullptr) != 0 && errno != EPERM) {
    return "drop the groups";
  }
  if (::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0) {
    return "become root of the user namespace";
  }
  return nullptr;
}

}  // namespace

const char* JoinNamespaces(const Setup& setup) {
  if (setup.user_namespace.valid()) {
    if (const char* failed = BecomeRootOf(setup.user_namespace.get())) {
      return failed;
    }
  }
  if (setup.network_namespace.valid() &&
      ::setns(setup.network_namespace.get(), CLONE_NEWNET) != 0) {
    return "join the network namespace";
  }
  return nullptr;
}

// The kernel makes each mount of the new namespace a slave, because the
// namespace has another owner. So mounts that the host adds later appear here,
// too.
const char* MountRoot(const Setup& setup) {
  if (setup.mount_type.empty()) {
    return nullptr;
  }
  if (::unshare(CLONE_NEWNS) != 0) {
    return "make a mount namespace";
  }
  const bool is_bind = setup.mount_type == "bind";
  const unsigned long flags = is_bind ? MS_BIND | MS_REC : 0UL;
  if (::mount(setup.mount_source.c_str(), setup.mount_target.c_str(),
              setup.mount_type.c_str(), flags,
              is_bind ? nullptr : setup.mount_options.c_str()) != 0) {
    return "mount the root file system";
  }
  return nullptr;
}

}  // namespace mountd::shim
