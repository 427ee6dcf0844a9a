// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/fuse.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

namespace mountd::propagation {

using exec::Named;

namespace {

// Returns the connection's name in fusectl: the device number as the kernel
// counts it, MKDEV of include/linux/kdev_t.h.
std::string ConnectionOf(std::uint64_t device) {
  constexpr unsigned kMinorBits = 20;
  return std::to_string((std::uint64_t{major(device)} << kMinorBits) |
                        minor(device));
}

}  // namespace

Result<void> AbortConnection(const Context& context, std::uint64_t mount_id,
                             const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const MountFacts mount, context.inspector.Facts(mount_id));
  if (mount.type != "fuse" && mount.type != "fuseblk" &&
      !mount.type.starts_with("fuse.")) {
    return MakeError(
        Code::kNotSupported, "abort", object,
        "its file system is " + mount.type + ", but only FUSE can be aborted");
  }
  // Make a fusectl mount for this call, attached nowhere, because the host may
  // have no fusectl mounted.
  MOUNTD_ASSIGN(const UniqueFd fs,
                Named(kernel.OpenFilesystem("fusectl"), "fsopen", object));
  MOUNTD_TRY(Named(kernel.CreateFilesystem(fs.get()), "fsconfig", object));
  MOUNTD_ASSIGN(const UniqueFd control,
                Named(kernel.MountFilesystem(fs.get(), MOUNT_ATTR_NOSUID |
                                                           MOUNT_ATTR_NODEV |
                                                           MOUNT_ATTR_NOEXEC),
                      "fsmount", object));
  // Any write to this file aborts the connection (the kernel's documentation of
  // FUSE, "Control filesystem").
  MOUNTD_ASSIGN(
      const UniqueFd abort,
      Named(kernel.Open(control.get(), ConnectionOf(mount.device) + "/abort",
                        O_WRONLY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
            "openat2", object));
  return Named(kernel.Write(abort.get(), "1"), "write", object);
}

}  // namespace mountd::propagation
