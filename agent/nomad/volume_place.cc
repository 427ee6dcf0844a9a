// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/volume_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace mountd::nomad {
namespace {

constexpr char kMountPoint[] = "volume";
constexpr char kMaking[] = "making";
constexpr char kWhole[] = "nomad";
constexpr char kData[] = "data";

Error Failed(int error, const char* call, const std::string& path) {
  return ErrnoError(error, call, path);
}

// Makes the directory if it is missing, and returns an fd (O_PATH) of it, or of
// what is mounted on it. Follows no link.
Result<UniqueFd> OpenMade(int parent, const char* name,
                          const std::string& path) {
  if (::mkdirat(parent, name, 0700) != 0 && errno != EEXIST) {
    return Failed(errno, "mkdirat", path);
  }
  UniqueFd fd(
      ::openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) {
    return Failed(errno, "open", path);
  }
  return fd;
}

Result<void> CheckOwner(int fd, const std::string& path) {
  struct stat seen {};
  if (::fstat(fd, &seen) != 0) {
    return Failed(errno, "fstat", path);
  }
  return seen.st_uid == ::geteuid()
             ? Ok()
             : Result<void>(MakeError(Code::kFailedPrecondition, "open", path,
                                      "is another user's"));
}

Result<void> CheckMounted(int fd, const std::string& path) {
  struct statx seen {};
  if (::statx(fd, "", AT_EMPTY_PATH, 0, &seen) != 0) {
    return Failed(errno, "statx", path);
  }
  return (seen.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0 ||
                 (seen.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0
             ? Ok()
             : Result<void>(MakeError(
                   Code::kFailedPrecondition, "open", path,
                   "nothing is mounted there, although mountd has the mount; "
                   "delete the volume, or give the directory its name back"));
}

}  // namespace

Result<UniqueFd> VolumePlace::OpenOwn() const {
  const UniqueFd volumes(
      ::open(volumes_dir_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!volumes.valid()) {
    return Failed(errno, "open", volumes_dir_);
  }
  const std::string path = volumes_dir_ + "/" + id_;
  MOUNTD_ASSIGN(UniqueFd own, OpenMade(volumes.get(), id_.c_str(), path));
  MOUNTD_TRY(CheckOwner(own.get(), path));
  return own;
}

Result<UniqueFd> VolumePlace::MakeMountPoint() const {
  MOUNTD_ASSIGN(const UniqueFd own, OpenOwn());
  return OpenMade(own.get(), kMountPoint, mount_path());
}

Result<void> VolumePlace::MakeData(const HostVolumeRequest& request) const {
  MOUNTD_ASSIGN(const UniqueFd root, MakeMountPoint());
  MOUNTD_TRY(CheckMounted(root.get(), mount_path()));
  struct stat seen {};
  if (::fstatat(root.get(), kWhole, &seen, AT_SYMLINK_NOFOLLOW) == 0) {
    return S_ISDIR(seen.st_mode) && seen.st_uid == ::geteuid()
               ? Ok()
               : Result<void>(
                     MakeError(Code::kFailedPrecondition, "open", data_path(),
                               "the volume has a file of another user there"));
  }
  MOUNTD_ASSIGN(const UniqueFd making,
                OpenMade(root.get(), kMaking, mount_path()));
  MOUNTD_TRY(CheckOwner(making.get(), mount_path()));
  if (::mkdirat(making.get(), kData, 0700) != 0 && errno != EEXIST) {
    return Failed(errno, "mkdirat", data_path());
  }
  // The group first, because chown(2) clears bits of the mode.
  if (request.gid && ::fchownat(making.get(), kData, static_cast<uid_t>(-1),
                                *request.gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return Failed(errno, "chown", data_path());
  }
  if (request.mode && ::fchmodat(making.get(), kData, *request.mode, 0) != 0) {
    return Failed(errno, "chmod", data_path());
  }
  // The name says that all is done, so a later call changes no owner of a
  // task's files.
  if (::renameat(root.get(), kMaking, root.get(), kWhole) != 0) {
    return Failed(errno, "rename", data_path());
  }
  return Ok();
}

Result<void> VolumePlace::Remove() const {
  const UniqueFd volumes(
      ::open(volumes_dir_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd own(
      volumes.valid() ? ::openat(volumes.get(), id_.c_str(),
                                 O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                      : -1);
  if (!own.valid()) {
    return errno == ENOENT ? Ok()
                           : Result<void>(Failed(errno, "open", volumes_dir_));
  }
  if ((::unlinkat(own.get(), kMountPoint, AT_REMOVEDIR) != 0 &&
       errno != ENOENT) ||
      (::unlinkat(volumes.get(), id_.c_str(), AT_REMOVEDIR) != 0 &&
       errno != ENOENT)) {
    return Failed(errno, "rmdir", mount_path());
  }
  return Ok();
}

}  // namespace mountd::nomad
