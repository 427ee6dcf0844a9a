// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/tool_sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>

#include "csi-node/csi-local/tool_calls.h"

namespace mountd::csi_local {
namespace {

// The first id of a range that nobody uses: systemd's ranges for containers end
// right below it (systemd's UIDS-GIDS). A pid has at most 22 bits, so each pid
// gives an id of the range.
constexpr uid_t kFirstToolUser = 0x70000000;
// No memory limit, because a sanitizer has reserved terabytes and could map no
// more until exec.
#ifdef MOUNTD_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr rlim_t kMemoryLimit = rlim_t{4} << 30U;
constexpr rlim_t kFilesLimit = 32;
// The same time as RunTool()'s deadline, which only counts while RunTool()
// waits.
constexpr rlim_t kCpuLimit = 600;

Result<void> Limit(int resource, rlim_t most) {
  const rlimit limit{most, most};
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) {
    return ErrnoError(errno, "setrlimit", std::to_string(resource));
  }
  return Ok();
}

Result<void> LimitResources() {
  struct stat image {};
  if (::fstat(kToolFd, &image) != 0) {
    return ErrnoError(errno, "fstat", "image");
  }
  // Ignores SIGXFSZ, because a log on stderr may be larger than the image. The
  // write then fails with EFBIG, and the tool continues.
  ::signal(SIGXFSZ, SIG_IGN);
  MOUNTD_TRY(Limit(RLIMIT_CORE, 0));
  MOUNTD_TRY(Limit(RLIMIT_FSIZE, static_cast<rlim_t>(image.st_size)));
  MOUNTD_TRY(Limit(RLIMIT_NOFILE, kFilesLimit));
  MOUNTD_TRY(Limit(RLIMIT_CPU, kCpuLimit));
  return kSanitized ? Ok() : Limit(RLIMIT_AS, kMemoryLimit);
}

// Makes all mounts of the new namespace read-only. The image stays writable,
// because its descriptor is of the mount on which csi-local opened it. Makes no
// user namespace, because a process without capabilities gains none by one.
Result<void> LeaveNamespaces() {
  // A tool needs no network, no IPC objects and no host name.
  if (::unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) !=
      0) {
    return ErrnoError(errno, "unshare", "tool");
  }
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
  // MS_PRIVATE, so that no mount made later on the host comes in, writable.
  attributes.propagation = MS_PRIVATE;
  if (::mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attributes,
                      sizeof(attributes)) != 0) {
    return ErrnoError(errno, "mount_setattr", "/");
  }
  return Ok();
}

// Gives each tool a user of its own, because two tools of one user could open
// each other's images by /proc/<pid>/fd.
uid_t ToolUser() { return kFirstToolUser + static_cast<uid_t>(::getpid()); }

Result<void> DropPrivileges() {
  const uid_t user = ToolUser();
  // Ignores errors, because dropping the bounding set needs CAP_SETPCAP.
  // no_new_privs keeps exec from adding capabilities of that set in any case.
  for (unsigned long capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  // The groups first, because the new user may no longer change them.
  if (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 ||
      ::setresuid(user, user, user) != 0 ||
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoError(errno, "drop privileges", "tool");
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  if (::syscall(SYS_capset, &header, none.data()) != 0) {
    return ErrnoError(errno, "capset", "tool");
  }
  return Ok();
}

// Ends the tool with csi-local. A tool that outlives csi-local would keep its
// image's lock, and the next csi-local could not use the volume. Called after
// the change of the user, because that change clears the signal. Compares the
// parent with the starter's pid in the environment, because a starter that
// ended before prctl sends no signal.
Result<void> EndWithStarter() {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
    return ErrnoError(errno, "prctl", "tool");
  }
  const char* const starter = ::getenv(kToolStarter);
  if (starter != nullptr && std::to_string(::getppid()) != starter) {
    return MakeError(Code::kAborted, "start", "tool", "csi-local has ended");
  }
  ::unsetenv(kToolStarter);
  return Ok();
}

Result<void> Confine() {
  MOUNTD_TRY(LimitResources());
  // CAP_SYS_ADMIN is needed here, so the capabilities go afterwards. The filter
  // of system calls comes last, because it forbids the calls of the other
  // steps.
  MOUNTD_TRY(LeaveNamespaces());
  MOUNTD_TRY(DropPrivileges());
  MOUNTD_TRY(EndWithStarter());
  return RestrictToolCalls();
}

}  // namespace

Error BecomeTool(char* const* argv) {
  const Result<void> confined = Confine();
  if (!confined) {
    return confined.error();
  }
  ::execv(argv[0], argv);
  return ErrnoError(errno, "execv", argv[0]);
}

}  // namespace mountd::csi_local
