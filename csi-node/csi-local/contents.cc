// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "csi-node/csi-local/copy_tree.h"
#include "csi-node/csi-local/files.h"
#include "csi-node/csi-local/filesystem.h"
#include "csi-node/csi-local/mount_point.h"

namespace mountd::csi_local {
namespace {

// Everybody may write, because tasks of any user write to their volume. The
// mode of the data directory keeps all others out.
constexpr mode_t kVolumeMode = 0777;

Result<void> Sync(const UniqueFd& file, const UniqueFd& directory,
                  const std::string& name) {
  // fsync(2): the sync of a file does not sync its name in the directory.
  if (::fsync(file.get()) != 0 || ::fsync(directory.get()) != 0) {
    return ErrnoError(errno, "fsync", name);
  }
  return Ok();
}

Result<UniqueFd> CreateImage(const UniqueFd& directory,
                             const std::string& name) {
  UniqueFd image(::openat(directory.get(), name.c_str(),
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          0600));
  if (!image.valid()) {
    return ErrnoError(errno, "openat", name);
  }
  return image;
}

Result<void> Resize(const UniqueFd& image, std::int64_t bytes,
                    const std::string& name) {
  return ::ftruncate(image.get(), bytes) == 0
             ? Ok()
             : Result<void>(ErrnoError(errno, "ftruncate", name));
}

Result<void> MakeImage(const UniqueFd& directory, const std::string& name,
                       const Content& content) {
  MOUNTD_ASSIGN(const UniqueFd image, CreateImage(directory, name));
  MOUNTD_TRY(Resize(image, content.capacity_bytes(), name));
  if (!content.fs_type().empty()) {
    MOUNTD_TRY(MakeFilesystem(content.fs_type(), image));
  }
  return Sync(image, directory, name);
}

Result<UniqueFd> MakeVolumeDirectory(const UniqueFd& directory,
                                     const std::string& name) {
  bool made = false;
  MOUNTD_ASSIGN(UniqueFd path,
                MakeDirectoryAt(directory.get(), name, kVolumeMode, &made));
  return path;
}

Result<void> CopyDirectory(const UniqueFd& from, const std::string& from_name,
                           const UniqueFd& to, const std::string& name) {
  MOUNTD_ASSIGN(const UniqueFd source, OpenDirectoryAt(from.get(), from_name));
  MOUNTD_ASSIGN(const UniqueFd target, MakeVolumeDirectory(to, name));
  MOUNTD_TRY(CopyTree(source, target));
  // One syncfs writes all copied files to the disk.
  return ::syncfs(to.get()) == 0
             ? Ok()
             : Result<void>(ErrnoError(errno, "syncfs", name));
}

Result<void> CopyImage(const UniqueFd& from, const std::string& from_name,
                       const UniqueFd& to, const std::string& name,
                       std::int64_t bytes) {
  MOUNTD_ASSIGN(const UniqueFd source, OpenImage(from, from_name));
  MOUNTD_ASSIGN(const UniqueFd target, CreateImage(to, name));
  MOUNTD_TRY(CopyData(source.get(), target.get(), name));
  struct stat status {};
  if (::fstat(target.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", name);
  }
  if (status.st_size < bytes) {
    MOUNTD_TRY(Resize(target, bytes, name));
  }
  return Sync(target, to, name);
}

}  // namespace

Result<void> MakeContent(const UniqueFd& directory, const std::string& name,
                         const Content& content) {
  MOUNTD_TRY(RemoveContent(directory, name));
  switch (content.kind()) {
    case IMAGE:
      return MakeImage(directory, name, content);
    case DIRECTORY: {
      MOUNTD_ASSIGN(const UniqueFd made, MakeVolumeDirectory(directory, name));
      return ::fsync(directory.get()) == 0
                 ? Ok()
                 : Result<void>(ErrnoError(errno, "fsync", name));
    }
    default:
      return Ok();
  }
}

Result<void> CopyContent(const UniqueFd& from, const std::string& from_name,
                         const UniqueFd& to, const std::string& name,
                         const Content& content) {
  MOUNTD_TRY(RemoveContent(to, name));
  switch (content.kind()) {
    case IMAGE:
      return CopyImage(from, from_name, to, name, content.capacity_bytes());
    case DIRECTORY:
      return CopyDirectory(from, from_name, to, name);
    default:
      return MakeError(Code::kInvalidArgument, "copy", from_name,
                       "a volume of kind tmpfs cannot be copied");
  }
}

Result<void> RemoveContent(const UniqueFd& directory, const std::string& name) {
  // ENOENT: the deletion of a volume is idempotent (CSI spec, DeleteVolume).
  if (::unlinkat(directory.get(), name.c_str(), 0) == 0 || errno == ENOENT) {
    return Ok();
  }
  // EISDIR: the content is a directory.
  if (errno != EISDIR) {
    return ErrnoError(errno, "unlinkat", name);
  }
  std::error_code failed;
  // Follows no link below this path. The path's own link leads to the directory
  // that `directory` has open.
  std::filesystem::remove_all(
      "/proc/self/fd/" + std::to_string(directory.get()) + "/" + name, failed);
  return failed ? Result<void>(ErrnoError(failed.value(), "remove", name))
                : Ok();
}

Result<UniqueFd> OpenImage(const UniqueFd& directory, const std::string& name) {
  // O_NONBLOCK, so that a FIFO at the name does not block the open.
  UniqueFd image(::openat(directory.get(), name.c_str(),
                          O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!image.valid() || ::fstat(image.get(), &status) != 0) {
    Error error = ErrnoError(errno, "openat", name);
    if (error.sys_errno == ENOENT) {
      error.code = Code::kNotFound;
    }
    return error;
  }
  if (!S_ISREG(status.st_mode)) {
    return MakeError(Code::kInternal, "openat", name,
                     "the image is not a regular file");
  }
  return image;
}

Result<void> GrowImage(const UniqueFd& directory, const std::string& name,
                       std::int64_t bytes) {
  MOUNTD_ASSIGN(const UniqueFd image, OpenImage(directory, name));
  struct stat status {};
  if (::fstat(image.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", name);
  }
  if (status.st_size >= bytes) {
    return Ok();
  }
  MOUNTD_TRY(Resize(image, bytes, name));
  return Sync(image, directory, name);
}

std::int64_t AllocatedBytes(const UniqueFd& directory,
                            const std::string& name) {
  struct stat status {};
  if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) !=
          0 ||
      !S_ISREG(status.st_mode)) {
    return 0;
  }
  // stat(2): st_blocks counts units of 512 bytes.
  return std::int64_t{status.st_blocks} * 512;
}

}  // namespace mountd::csi_local
