// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/volume_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
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

// The mount, and its file system, that a directory is on.
struct MountOfFile {
  bool operator==(const MountOfFile&) const = default;

  std::uint64_t id = 0;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

Result<MountOfFile> MountOf(int fd, const std::string& path) {
  struct statx seen {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &seen) != 0) {
    return Failed(errno, "statx", path);
  }
  if ((seen.stx_mask & STATX_MNT_ID) == 0) {
    return Failed(ENOSYS, "statx", path);
  }
  return MountOfFile{seen.stx_mnt_id, seen.stx_dev_major, seen.stx_dev_minor};
}

Result<void> CheckMount(int fd, const MountOfFile& mount,
                        const std::string& path) {
  MOUNTD_ASSIGN(const MountOfFile found, MountOf(fd, path));
  return found == mount
             ? Ok()
             : Result<void>(MakeError(Code::kFailedPrecondition, "open", path,
                                      "is on another mount than the volume"));
}

// Refuses the volume's tree if a name in it leads out of the volume. A file
// server and a snapshot may have put a link there, which the bind into a task
// would follow. The owner of "data" is free, because tasks change it.
Result<void> CheckData(int root, const MountOfFile& mount,
                       const std::string& path) {
  const auto open = [](int parent, const char* name, const std::string& full) {
    UniqueFd fd(
        ::openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return fd.valid() ? Result<UniqueFd>(std::move(fd))
                      : MakeError(Code::kFailedPrecondition, "open", full,
                                  "the volume has no directory of that name");
  };
  MOUNTD_ASSIGN(const UniqueFd whole, open(root, kWhole, path));
  MOUNTD_TRY(CheckOwner(whole.get(), path));
  MOUNTD_TRY(CheckMount(whole.get(), mount, path));
  const std::string data_path = path + "/" + kData;
  MOUNTD_ASSIGN(const UniqueFd data, open(whole.get(), kData, data_path));
  return CheckMount(data.get(), mount, data_path);
}

// Sets the rights of the directory itself, whatever its name now leads to.
Result<void> SetRights(int data, const HostVolumeRequest& request,
                       const std::string& path) {
  // The group first, because chown(2) clears bits of the mode.
  if (request.gid && ::fchownat(data, "", static_cast<uid_t>(-1), *request.gid,
                                AT_EMPTY_PATH) != 0) {
    return Failed(errno, "chown", path);
  }
  // fchmod(2) takes no O_PATH descriptor, and the mode may forbid another.
  const std::string self = "/proc/self/fd/" + std::to_string(data);
  if (request.mode && ::chmod(self.c_str(), *request.mode) != 0) {
    return Failed(errno, "chmod", path);
  }
  return Ok();
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
  return MakeDataIn(root.get(), request, mount_path());
}

Result<void> VolumePlace::MakeDataIn(int root, const HostVolumeRequest& request,
                                     const std::string& path) {
  MOUNTD_ASSIGN(const MountOfFile mount, MountOf(root, path));
  struct stat seen {};
  if (::fstatat(root, kWhole, &seen, AT_SYMLINK_NOFOLLOW) == 0) {
    return CheckData(root, mount, path + "/" + kWhole);
  }
  if (errno != ENOENT) {
    return Failed(errno, "fstatat", path + "/" + kWhole);
  }
  const std::string making_path = path + "/" + kMaking;
  MOUNTD_ASSIGN(const UniqueFd making, OpenMade(root, kMaking, making_path));
  MOUNTD_TRY(CheckOwner(making.get(), making_path));
  MOUNTD_TRY(CheckMount(making.get(), mount, making_path));
  const std::string data_path = making_path + "/" + kData;
  MOUNTD_ASSIGN(const UniqueFd data, OpenMade(making.get(), kData, data_path));
  MOUNTD_TRY(CheckOwner(data.get(), data_path));
  MOUNTD_TRY(CheckMount(data.get(), mount, data_path));
  MOUNTD_TRY(SetRights(data.get(), request, data_path));
  // The name says that all is done, so a later call changes no owner of a
  // task's files.
  if (::renameat(root, kMaking, root, kWhole) != 0) {
    return Failed(errno, "rename", making_path);
  }
  return CheckData(root, mount, path + "/" + kWhole);
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
