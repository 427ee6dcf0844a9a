// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/target.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace mountd::csi_proxy {
namespace {

struct Place {
  UniqueFd parent;
  std::string name;
};

Error Failed(int err, const char* call) {
  Error error = ErrnoError(err, call, "target_path");
  // NOT_FOUND would be about the volume.
  if (error.code == Code::kNotFound || error.code == Code::kInvalidArgument ||
      error.code == Code::kAlreadyExists) {
    error.code = Code::kFailedPrecondition;
  }
  return error;
}

// Follows links above the directory, because an administrator may have put the
// orchestrator's directory elsewhere. mountd walks from alloc_roots without
// any.
Result<Place> OpenParent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
  open_how how = {};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(static_cast<int>(
      ::syscall(SYS_openat2, AT_FDCWD, parent.c_str(), &how, sizeof(how))));
  if (!fd.valid()) {
    return ErrnoError(errno, "openat2", "target_path",
                      "its parent cannot be opened");
  }
  return Place{std::move(fd), path.substr(slash + 1)};
}

}  // namespace

Result<UniqueFd> OpenTarget(const std::string& path) {
  Result<Place> place = OpenParent(path);
  if (!place) {
    return Failed(place.error().sys_errno, "openat2");
  }
  if (::mkdirat(place->parent.get(), place->name.c_str(), 0700) != 0 &&
      errno != EEXIST) {
    return Failed(errno, "mkdirat");
  }
  UniqueFd fd(::openat(place->parent.get(), place->name.c_str(),
                       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) {
    return Failed(errno, "openat");
  }
  return fd;
}

Result<bool> IsMountPoint(const std::string& path) {
  MOUNTD_ASSIGN(const UniqueFd fd, OpenTarget(path));
  struct statx seen {};
  if (::statx(fd.get(), "", AT_EMPTY_PATH, 0, &seen) != 0) {
    return Failed(errno, "statx");
  }
  return (seen.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0 ||
         (seen.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Result<void> RemoveTarget(const std::string& path) {
  const Result<Place> place = OpenParent(path);
  if (!place) {
    return place.error().sys_errno == ENOENT
               ? Ok()
               : Result<void>(Failed(place.error().sys_errno, "openat2"));
  }
  if (::unlinkat(place->parent.get(), place->name.c_str(), AT_REMOVEDIR) != 0 &&
      errno != ENOENT) {
    return Failed(errno, "rmdir");
  }
  return Ok();
}

}  // namespace mountd::csi_proxy
