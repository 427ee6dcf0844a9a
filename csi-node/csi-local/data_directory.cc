// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <chrono>
#include <thread>
#include <utility>

#include "csi-node/csi-local/mount_point.h"
#include "mountd/base/names.h"

namespace mountd::csi_local {
namespace {

// Tries for a second, because a tool that a killed csi-local was just starting
// has that csi-local's fds until its exec.
constexpr int kLockTries = 50;
constexpr std::chrono::milliseconds kLockPause(20);

Result<void> TakeAlone(const UniqueFd& root, const std::string& path) {
  for (int i = 0; i < kLockTries; ++i) {
    // LOCK_NB, because flock(2) has no time limit.
    if (::flock(root.get(), LOCK_EX | LOCK_NB) == 0) {
      return Ok();
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return MakeError(
      Code::kFailedPrecondition, "flock", path,
      "another process uses this data directory; stop it or choose another");
}

// Opens without O_PATH, because the directory is read and synced.
Result<UniqueFd> MakeReadable(int parent, const char* name) {
  bool made = false;
  MOUNTD_ASSIGN(const UniqueFd path,
                MakeDirectoryAt(parent, name, 0700, &made));
  // MakeDirectoryAt's descriptor has O_PATH, by which fsync(2) and readdir(3)
  // fail (open(2)).
  UniqueFd directory(
      ::openat(path.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    return ErrnoError(errno, "open", name);
  }
  return directory;
}

}  // namespace

DataDirectory::DataDirectory(UniqueFd root, UniqueFd volumes,
                             UniqueFd snapshots, RecordFiles volume_records,
                             RecordFiles snapshot_records,
                             Publications publications, UniqueFd loop_numbers,
                             std::string key)
    : root_(std::move(root)),
      volumes_(std::move(volumes)),
      snapshots_(std::move(snapshots)),
      volume_records_(std::move(volume_records)),
      snapshot_records_(std::move(snapshot_records)),
      publications_(std::move(publications)),
      loop_numbers_(std::move(loop_numbers)),
      key_(std::move(key)) {}

Result<std::unique_ptr<DataDirectory>> DataDirectory::Open(
    const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", path);
  }
  UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!root.valid() || ::fstat(root.get(), &status) != 0) {
    return ErrnoError(errno, "open", path);
  }
  MOUNTD_TRY(TakeAlone(root, path));
  MOUNTD_ASSIGN(UniqueFd volumes, MakeReadable(root.get(), "volumes"));
  MOUNTD_ASSIGN(UniqueFd snapshots, MakeReadable(root.get(), "snapshots"));
  MOUNTD_ASSIGN(UniqueFd records, MakeReadable(root.get(), "records"));
  MOUNTD_ASSIGN(UniqueFd snapshot_records,
                MakeReadable(root.get(), "snapshot-records"));
  MOUNTD_ASSIGN(UniqueFd publications,
                MakeReadable(root.get(), "publications"));
  UniqueFd numbers(
      ::openat(root.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!numbers.valid()) {
    return ErrnoError(errno, "open", path);
  }
  std::string key =
      std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  return std::unique_ptr<DataDirectory>(new DataDirectory(
      std::move(root), std::move(volumes), std::move(snapshots),
      RecordFiles(std::move(records)), RecordFiles(std::move(snapshot_records)),
      Publications(std::move(publications)), std::move(numbers),
      std::move(key)));
}

std::string DataDirectory::LabelOf(const std::string& volume) const {
  return "csi-local:" + VolumeKey::Derive(key_, volume).str();
}

Result<DataDirectory::Space> DataDirectory::SpaceNow() const {
  struct statvfs status {};
  if (::fstatvfs(root_.get(), &status) != 0) {
    return ErrnoError(errno, "fstatvfs", "data directory");
  }
  const auto unit = static_cast<std::int64_t>(status.f_frsize);
  return Space{static_cast<std::int64_t>(status.f_blocks) * unit,
               static_cast<std::int64_t>(status.f_bavail) * unit};
}

}  // namespace mountd::csi_local
