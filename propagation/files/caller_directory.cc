// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/files/caller_directory.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <span>
#include <string_view>

#include "mountd/base/paths.h"
#include "propagation/ground/host_path.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

Error Denied(const std::string& object, std::string why) {
  return MakeError(Code::kPermissionDenied, "open", object, std::move(why));
}

bool IsSame(const FileFacts& a, const FileFacts& b) {
  return a.mount_id == b.mount_id && a.device == b.device && a.inode == b.inode;
}

// Checks the type, owner and mount namespace of the file that the caller's fd
// refers to, whatever path leads there.
Result<FileFacts> CheckPassed(const Context& context, int fd,
                              const exec::CallerPlan& caller,
                              Ownership ownership, const std::string& object) {
  MOUNTD_ASSIGN(const FileFacts file,
                Named(context.kernel.Stat(fd, ""), "statx", object));
  if (!S_ISDIR(file.mode)) {
    return MakeError(Code::kInvalidArgument, "open", object,
                     "is not a directory");
  }
  if (file.uid != caller.uid &&
      (ownership == Ownership::kCallers || file.uid != 0)) {
    return Denied(object, "does not belong to the caller");
  }
  const Result<MountFacts> mount = context.inspector.Facts(file.mount_id);
  if (!mount && mount.error().code != Code::kNotFound) {
    return mount.error();
  }
  if (!mount) {
    return MakeError(Code::kFailedPrecondition, "open", object,
                     "must be in the host's mount namespace");
  }
  return file;
}

// PermissionDenied unless the directory or its parent belongs to the caller.
Result<void> CheckParent(const Context& context, const CallerDirectory& found,
                         const exec::CallerPlan& caller,
                         const std::string& object) {
  if (found.file.uid == caller.uid) {
    return Ok();
  }
  MOUNTD_ASSIGN(
      const FileFacts parent,
      Named(context.kernel.Stat(found.parent.get(), ""), "statx", object));
  return parent.uid == caller.uid
             ? Ok()
             : Result<void>(Denied(object, "does not belong to the caller"));
}

// Returns whether the walk failed for another reason than that the directory
// does not lie there.
bool MayLieThere(const Error& error) {
  return error.code != Code::kNotFound &&
         error.code != Code::kInvalidArgument &&
         error.code != Code::kPermissionDenied;
}

// Opens `rest`, a path below `root`, without following links or leaving the
// mount.
Result<CallerDirectory> WalkFrom(const Context& context,
                                 const std::string& root,
                                 const std::string& rest,
                                 const std::string& object) {
  constexpr std::uint64_t kNoLinks =
      RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  // NO_XDEV, because a mount below the root shows another source's files.
  constexpr std::uint64_t kBelow = RESOLVE_BENEATH | RESOLVE_NO_XDEV | kNoLinks;
  exec::Kernel& kernel = context.kernel;
  CallerDirectory found;
  found.root = root;
  MOUNTD_ASSIGN(found.parent, Named(kernel.Open(exec::kFromRoot, root,
                                                O_PATH | O_DIRECTORY, kNoLinks),
                                    "openat2", object));
  const std::size_t slash = rest.rfind('/');
  found.name = rest.substr(slash == std::string::npos ? 0 : slash + 1);
  if (slash != std::string::npos) {
    MOUNTD_ASSIGN(found.parent,
                  Named(kernel.Open(found.parent.get(), rest.substr(0, slash),
                                    O_PATH | O_DIRECTORY, kBelow),
                        "openat2", object));
  }
  MOUNTD_ASSIGN(found.fd, Named(kernel.Open(found.parent.get(), found.name,
                                            O_PATH | O_DIRECTORY, kBelow),
                                "openat2", object));
  MOUNTD_ASSIGN(found.file,
                Named(kernel.Stat(found.fd.get(), ""), "statx", object));
  return found;
}

}  // namespace

Result<CallerDirectory> OpenCallerDirectory(const Context& context, int fd,
                                            const exec::CallerPlan& caller,
                                            const std::string& object,
                                            Ownership ownership) {
  MOUNTD_ASSIGN(const FileFacts passed,
                CheckPassed(context, fd, caller, ownership, object));
  MOUNTD_ASSIGN(
      const std::string hint,
      Named(context.kernel.ReadLink(exec::kFromRoot,
                                    "/proc/self/fd/" + std::to_string(fd)),
            "readlink", object));
  Error refused =
      Denied(object, "is not below an alloc_roots directory of the caller");
  for (const RuleConfig& rule : context.config.rules) {
    if (!Applies(rule, caller.uid,
                 std::span(caller.gids).first(caller.gid_count))) {
      continue;
    }
    for (const std::string& root : rule.alloc_roots) {
      if (!IsHostPathAllowed(root) || hint == root ||
          !paths::IsAtOrBelow(hint, root)) {
        continue;
      }
      Result<CallerDirectory> found =
          WalkFrom(context, root, hint.substr(root.size() + 1), object);
      if (found && IsSame(found->file, passed)) {
        MOUNTD_TRY(CheckParent(context, *found, caller, object));
        return found;
      }
      if (!found && MayLieThere(found.error())) {
        refused = std::move(found).error();
      }
    }
  }
  return refused;
}

}  // namespace mountd::propagation
