// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/mount_helper.h"

#include <libmount.h>

#include <memory>

namespace mountd::propagation {
namespace {

// The exit status of the child: 0, an errno, or one of these.
// Linux's errnos end at 133 (asm-generic/errno.h).
constexpr int kHelperFailed = 200;
constexpr int kLibmountFailed = 201;

struct ContextDeleter {
  void operator()(libmnt_context* context) const { mnt_free_context(context); }
};

std::string OptionsOf(const FilesystemConfig& filesystem) {
  // A mount helper may drop these two, so filesystem.cc sets them again on the
  // mount.
  std::string text = "nosuid,nodev";
  text += filesystem.read_only ? ",ro" : "";
  for (const std::string& option : filesystem.options) {
    text += "," + option;
  }
  return text;
}

// Prepares the mount. Reads nothing from fstab and writes nothing for other
// tools.
bool Prepare(libmnt_context* context, const FilesystemConfig& filesystem,
             const std::string& path) {
  return mnt_context_disable_mtab(context, 1) == 0 &&
         mnt_context_set_optsmode(context, MNT_OMODE_NOTAB) == 0 &&
         mnt_context_set_fstype(context, filesystem.type.c_str()) == 0 &&
         mnt_context_set_source(context, filesystem.source.c_str()) == 0 &&
         mnt_context_set_target(context, path.c_str()) == 0 &&
         mnt_context_set_options(context, OptionsOf(filesystem).c_str()) == 0;
}

}  // namespace

int MountByLibmount(const FilesystemConfig& filesystem,
                    const std::string& path) {
  const std::unique_ptr<libmnt_context, ContextDeleter> context(
      mnt_new_context());
  if (context == nullptr || !Prepare(context.get(), filesystem, path)) {
    return kLibmountFailed;
  }
  const int rc = mnt_context_mount(context.get());
  // A helper's exit status is not an errno.
  if (mnt_context_helper_executed(context.get()) == 1) {
    return mnt_context_get_helper_status(context.get()) == 0 ? 0
                                                             : kHelperFailed;
  }
  if (mnt_context_syscall_called(context.get()) == 1) {
    return mnt_context_get_syscall_errno(context.get());
  }
  // libmount failed before mount(2), for example because an image does not
  // exist, and returned a negative errno.
  return rc < 0 && rc > -kHelperFailed ? -rc : kLibmountFailed;
}

Result<void> MountOutcome(int status, const FilesystemConfig& filesystem,
                          const std::string& object) {
  if (status == 0) {
    return Ok();
  }
  if (status < kHelperFailed) {
    return ErrnoError(status, "mount", object);
  }
  return MakeError(Code::kUnavailable, "mount", object,
                   status == kHelperFailed
                       ? "mount." + filesystem.type + " failed"
                       : "libmount failed");
}

}  // namespace mountd::propagation
