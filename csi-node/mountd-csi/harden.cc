// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/harden.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace mountd::csi {
namespace {

Result<void> DropCapabilities() {
  // Errors are ignored. Dropping the bounding set needs CAP_SETPCAP; without
  // that capability the set is harmless, because no_new_privs keeps exec from
  // adding any.
  for (unsigned long capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  if (::syscall(SYS_capset, &header, none.data()) != 0) {
    return ErrnoError(errno, "capset", "mountd-csi");
  }
  return Ok();
}

}  // namespace

Result<void> GiveUpPrivileges() {
  ::unsetenv("GRPC_TRACE");
  if (::setenv("GRPC_VERBOSITY", "NONE", 1) != 0) {
    return ErrnoError(errno, "setenv", "mountd-csi");
  }
  // Makes the process not dumpable, so that no other process of this user reads
  // the secrets in memory (ptrace(2), "Ptrace access mode checking").
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return ErrnoError(errno, "prctl", "mountd-csi");
  }
  // A core dump would contain the secrets.
  const rlimit no_core{0, 0};
  if (::setrlimit(RLIMIT_CORE, &no_core) != 0) {
    return ErrnoError(errno, "setrlimit", "mountd-csi");
  }
  return DropCapabilities();
}

}  // namespace mountd::csi
