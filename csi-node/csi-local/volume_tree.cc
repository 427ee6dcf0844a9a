// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/volume_tree.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "csi-node/csi-local/contents.h"
#include "csi-node/csi-local/device_release.h"
#include "csi-node/csi-local/filesystem.h"
#include "csi-node/csi-local/mount_point.h"
#include "csi-node/csi-local/volume_mounts.h"

namespace mountd::csi_local {
namespace {

// The part at the end of a device that a file system may not be able to use.
constexpr std::int64_t kSlack = 1 << 20;
constexpr mode_t kFreshMode = 0777;
constexpr mode_t kGroupBits = S_ISGID | 0070;

// Call only if nobody uses the image. The lock shows whether a tool of an
// earlier process still works on it, because such a tool holds the lock as long
// as it lives. The lock is on another open file description than the loop
// device's, because the device keeps its description, and would keep the lock
// with it.
Result<void> GrowIfSmaller(const UniqueFd& image, const VolumeRecord& record) {
  if (::flock(image.get(), LOCK_EX | LOCK_NB) != 0) {
    return MakeError(Code::kAborted, "flock", record.id(),
                     "a tool still works on it; call again later");
  }
  const std::string& fs_type = record.content().fs_type();
  MOUNTD_ASSIGN(const std::int64_t bytes, FilesystemBytes(fs_type, image));
  return bytes + kSlack > record.content().capacity_bytes()
             ? Ok()
             : GrowUnused(fs_type, image);
}

// Uses the volume's existing device if it is mounted, because a second device
// of the same image would be a second file system that writes to the image.
Result<LoopDevice> DeviceForMount(Store* store, VolumeRecord* record) {
  const VolumeMounts mounts(store->data(), *record);
  MOUNTD_ASSIGN(const auto mounted, mounts.All());
  MOUNTD_ASSIGN(auto found, mounts.Loop());
  if (found && !mounted.empty()) {
    return std::move(*found);
  }
  // A device that is bound but not mounted is left from an earlier use. Closes
  // it here, so that ReleaseDevice can remove it.
  found.reset();
  MOUNTD_TRY(ReleaseDevice(store, record));
  MOUNTD_ASSIGN(const UniqueFd locked,
                OpenImage(store->data().volumes(), record->id()));
  MOUNTD_TRY(GrowIfSmaller(locked, *record));
  return TakeDevice(store, record, LoopUse::kFilesystem);
}

Result<UniqueFd> MountImage(Store* store, VolumeRecord* record) {
  MOUNTD_ASSIGN(const LoopDevice device, DeviceForMount(store, record));
  const Content& content = record->content();
  MOUNTD_ASSIGN(UniqueFd tree, MountDevice(content.fs_type(), device));
  // XFS can only grow while it is mounted.
  if (content.fs_type() == "xfs") {
    MOUNTD_ASSIGN(const UniqueFd image,
                  OpenImage(store->data().volumes(), record->id()));
    MOUNTD_TRY(GrowMounted("xfs", tree, image, content.capacity_bytes()));
  }
  return tree;
}

Result<UniqueFd> MountMemory(Store* store, const VolumeRecord& record) {
  const VolumeMounts mounts(store->data(), record);
  MOUNTD_ASSIGN(const auto mounted, OpenMounted(mounts));
  return mounted ? CloneTree(*mounted)
                 : MountTmpfs(store->data().LabelOf(record.id()),
                              record.content().capacity_bytes());
}

}  // namespace

Result<UniqueFd> MakeTree(Store* store, VolumeRecord* record) {
  switch (record->content().kind()) {
    case IMAGE:
      return MountImage(store, record);
    case TMPFS:
      return MountMemory(store, *record);
    default: {
      MOUNTD_ASSIGN(
          const UniqueFd directory,
          OpenDirectoryAt(store->data().volumes().get(), record->id()));
      return CloneTree(directory);
    }
  }
}

Result<void> PrepareRoot(Store* store, VolumeRecord* record,
                         const UniqueFd& tree, std::optional<gid_t> group) {
  if (!record->fresh() && !group) {
    return Ok();
  }
  // fchown(2) and fchmod(2) refuse a descriptor with O_PATH (open(2)).
  const UniqueFd root(
      ::openat(tree.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!root.valid() || ::fstat(root.get(), &status) != 0) {
    return ErrnoError(errno, "open", record->id());
  }
  mode_t mode = record->fresh() ? kFreshMode : status.st_mode & 07777;
  if (group) {
    if (status.st_gid != *group &&
        ::fchown(root.get(), status.st_uid, *group) != 0) {
      return ErrnoError(errno, "fchown", record->id());
    }
    mode |= kGroupBits;
  }
  if (::fchmod(root.get(), mode) != 0) {
    return ErrnoError(errno, "fchmod", record->id());
  }
  if (!record->fresh()) {
    return Ok();
  }
  // Writes the record last, so that after a kill the next call prepares the
  // root again.
  record->set_fresh(false);
  return store->PutVolume(*record);
}

Result<void> MakeDevice(Store* store, VolumeRecord* record, bool read_only) {
  const std::string id = record->id();
  MOUNTD_ASSIGN(auto found, VolumeMounts(store->data(), *record).Loop());
  if (found && !record->releasing()) {
    if (found->read_only != read_only) {
      return MakeError(
          Code::kAlreadyExists, "stage", id,
          "is already staged with another capability; unstage it first");
    }
    store->holds().Keep(id, std::move(found->fd));
    return Ok();
  }
  // Closes the device, so that ReleaseDevice can remove it.
  found.reset();
  MOUNTD_TRY(ReleaseDevice(store, record));
  MOUNTD_ASSIGN(
      LoopDevice device,
      TakeDevice(store, record,
                 read_only ? LoopUse::kDeviceReadOnly : LoopUse::kDevice));
  store->holds().Keep(id, std::move(device.fd));
  return Ok();
}

Result<void> GrowAt(Store* store, const VolumeRecord& record,
                    const UniqueFd& node) {
  const Content& content = record.content();
  if (content.kind() == TMPFS) {
    return ResizeTmpfs(node, content.capacity_bytes());
  }
  if (content.kind() != IMAGE) {
    return Ok();
  }
  const VolumeMounts mounts(store->data(), record);
  MOUNTD_ASSIGN(const auto loop, mounts.Loop());
  if (loop) {
    MOUNTD_TRY(UpdateLoopSize(*loop));
  }
  struct stat status {};
  if (::fstat(node.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", record.id());
  }
  // The content of a device belongs to its user.
  if (!S_ISDIR(status.st_mode)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const UniqueFd image,
                OpenImage(store->data().volumes(), record.id()));
  MOUNTD_ASSIGN(const std::int64_t bytes,
                FilesystemBytes(content.fs_type(), image));
  return bytes + kSlack > content.capacity_bytes()
             ? Ok()
             : GrowMounted(content.fs_type(), node, image,
                           content.capacity_bytes());
}

}  // namespace mountd::csi_local
