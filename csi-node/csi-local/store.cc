// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "csi-node/csi-local/contents.h"
#include "csi-node/csi-local/filesystem.h"
#include "csi-node/csi-local/mount_point.h"
#include "csi-node/csi-local/volume_mounts.h"
#include "mountd/base/names.h"

namespace mountd::csi_local {
namespace {

// Returns the bytes of an image that are promised but not on the disk yet.
std::int64_t Owed(const UniqueFd& directory, const std::string& id,
                  const Content& content) {
  return content.kind() == IMAGE
             ? std::max<std::int64_t>(
                   0, content.capacity_bytes() - AllocatedBytes(directory, id))
             : 0;
}

std::int64_t OnDisk(const Content& content) {
  return content.kind() == TMPFS ? 0 : content.capacity_bytes();
}

std::int64_t MemoryBytes(int pages) {
  const std::int64_t count = ::sysconf(pages);
  return count * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const std::string& data_dir,
                                           const StoreOptions& options) {
  MOUNTD_ASSIGN(auto data, DataDirectory::Open(data_dir));
  std::unique_ptr<Store> store(new Store(std::move(data), options));
  MOUNTD_TRY(store->Recover());
  return store;
}

Result<void> Store::Recover() {
  MOUNTD_TRY(data_->volume_records().RemoveUnfinished());
  MOUNTD_TRY(data_->snapshot_records().RemoveUnfinished());
  MOUNTD_TRY(RecoverVolumes());
  return RecoverSnapshots();
}

Result<void> Store::RecoverVolumes() {
  MOUNTD_ASSIGN(const auto ids, data_->volume_records().List());
  for (const std::string& id : ids) {
    VolumeRecord record;
    MOUNTD_TRY(data_->volume_records().Get(id, &record));
    if (record.state() != READY) {
      MOUNTD_TRY(RemoveVolume(record));
      continue;
    }
    if (record.content().kind() == IMAGE) {
      MOUNTD_TRY(RecoverImage(&record));
    }
  }
  return Ok();
}

Result<void> Store::RecoverImage(VolumeRecord* record) {
  if (record->content().access() == ACCESS_UNKNOWN) {
    MOUNTD_TRY(DecideAccess(record));
  }
  if (record->content().access() == ACCESS_BLOCK) {
    return RecoverDevice(record);
  }
  // csi-local may have been killed while it copied the frozen volume.
  MOUNTD_ASSIGN(const auto root, OpenMounted(VolumeMounts(*data_, *record)));
  if (root) {
    Thaw(*root);
  }
  return Ok();
}

// Makes no call on the file that backs the loop device, because a task may have
// bound the device to a file of a server that never answers.
Result<void> Store::RecoverDevice(VolumeRecord* record) {
  const int number = record->loop_number();
  if (number == 0 || record->releasing()) {
    return Ok();
  }
  const Result<bool> removed = RemoveIdleLoop(number);
  if (removed && *removed) {
    record->set_loop_number(0);
    return PutVolume(*record);
  }
  // Somebody still has the device, or the removal failed. Hold the device as
  // before the restart.
  auto device = HoldLoop(number);
  if (device) {
    holds_.Keep(record->id(), std::move(*device));
  }
  return Ok();
}

// Decides between block and mount for a record of an older version. That
// version recorded neither, because an image with a file system could be a
// device as well. Block if the image has no file system, is published as a
// device, or has a loop device without autoclear. Otherwise mount, and then the
// volume never becomes a device again.
Result<void> Store::DecideAccess(VolumeRecord* record) {
  MOUNTD_ASSIGN(const auto loop,
                FindLabelledLoop(data_->LabelOf(record->id())));
  const bool device = record->published().block() || (loop && !loop->autoclear);
  Content* content = record->mutable_content();
  content->set_access(content->fs_type().empty() || device ? ACCESS_BLOCK
                                                           : ACCESS_MOUNT);
  record->set_loop_number(loop ? loop->number : 0);
  if (content->access() == ACCESS_MOUNT) {
    std::fprintf(
        stderr,
        "csi-local: an older version made volume %s, which could be a device; "
        "from now on it is only mounted. If an untrusted task ever had it as a "
        "device, copy its data and delete it.\n",
        record->id().c_str());
  }
  return PutVolume(*record);
}

Result<void> Store::DecideAccess(SnapshotRecord* record) {
  const Result<VolumeRecord> source = GetVolume(record->source_volume_id());
  const bool device = source && source->content().access() == ACCESS_BLOCK;
  Content* content = record->mutable_content();
  content->set_access(content->fs_type().empty() || device ? ACCESS_BLOCK
                                                           : ACCESS_MOUNT);
  return data_->snapshot_records().Put(record->id(), *record);
}

Result<void> Store::RecoverSnapshots() {
  MOUNTD_ASSIGN(const auto ids, data_->snapshot_records().List());
  for (const std::string& id : ids) {
    SnapshotRecord record;
    MOUNTD_TRY(data_->snapshot_records().Get(id, &record));
    if (record.state() != READY) {
      MOUNTD_TRY(RemoveSnapshot(record));
    } else if (record.content().kind() == IMAGE &&
               record.content().access() == ACCESS_UNKNOWN) {
      MOUNTD_TRY(DecideAccess(&record));
    }
  }
  return Ok();
}

Result<VolumeRecord> Store::GetVolume(const std::string& id) {
  VolumeRecord record;
  const Result<void> found = data_->volume_records().Get(id, &record);
  if (!found && found.error().code != Code::kNotFound) {
    return found.error();
  }
  if (!found || record.state() != READY) {
    return MakeError(Code::kNotFound, "volume_id", id,
                     "the volume does not exist");
  }
  return record;
}

Result<std::vector<VolumeRecord>> Store::ListVolumes() {
  MOUNTD_ASSIGN(const auto ids, data_->volume_records().List());
  std::vector<VolumeRecord> volumes;
  for (const std::string& id : ids) {
    Result<VolumeRecord> record = GetVolume(id);
    if (record) {
      volumes.push_back(std::move(*record));
    } else if (record.error().code != Code::kNotFound) {
      return record.error();
    }
  }
  return volumes;
}

Result<VolumeRecord> Store::MakeOnStage(const std::string& id) {
  Result<VolumeRecord> existing = GetVolume(id);
  if (existing || existing.error().code != Code::kNotFound) {
    return existing;
  }
  if (!IsValidName(id)) {
    return MakeError(Code::kInvalidArgument, "volume_id", id,
                     "must be 1 to 128 letters, digits, '.', '_' and '-'");
  }
  VolumeRecord record;
  if (data_->volume_records().Get(id, &record)) {
    return existing;  // it is being made or deleted
  }
  // Takes over a directory that is there already, because csi-local made
  // volumes before it kept records. A clean-up must not remove a directory that
  // has no record, for the same reason.
  bool made = false;
  MOUNTD_ASSIGN(const UniqueFd directory,
                MakeDirectoryAt(data_->volumes().get(), id, 0777, &made));
  record.set_state(READY);
  record.set_id(id);
  record.mutable_content()->set_kind(DIRECTORY);
  MOUNTD_TRY(data_->volume_records().Put(id, record));
  return record;
}

Result<void> Store::PutVolume(const VolumeRecord& record) {
  return data_->volume_records().Put(record.id(), record);
}

Result<void> Store::CheckLimit(const std::string& id) {
  if (options_.max_volumes == 0) {
    return Ok();
  }
  MOUNTD_ASSIGN(const auto volumes, ListVolumes());
  const auto published =
      std::count_if(volumes.begin(), volumes.end(), [&id](const auto& volume) {
        return volume.has_published() && volume.id() != id;
      });
  if (published >= options_.max_volumes) {
    return MakeError(
        Code::kResourceExhausted, "publish", id,
        "this node already has the most volumes that --max-volumes allows");
  }
  return Ok();
}

Result<void> Store::PublishVolume(const std::string& id,
                                  const PublishedAs& as) {
  MOUNTD_ASSIGN(const auto held, locks_.Take({id}));
  MOUNTD_ASSIGN(VolumeRecord record, GetVolume(id));
  if (record.has_published()) {
    const PublishedAs& was = record.published();
    return was.access_mode() == as.access_mode() &&
                   was.read_only() == as.read_only() &&
                   was.block() == as.block()
               ? Ok()
               : Result<void>(MakeError(Code::kAlreadyExists, "publish", id,
                                        "is already published with other "
                                        "options; unpublish it first"));
  }
  // Hold the mutex until the record is written, so that two calls never both
  // publish the last volume that --max-volumes allows.
  const std::lock_guard guard(reserve_mutex_);
  MOUNTD_TRY(CheckLimit(id));
  *record.mutable_published() = as;
  return data_->volume_records().Put(id, record);
}

Result<void> Store::UnpublishVolume(const std::string& id) {
  MOUNTD_ASSIGN(const auto held, locks_.Take({id}));
  Result<VolumeRecord> record = GetVolume(id);
  if (!record && record.error().code == Code::kNotFound) {
    return Ok();  // a volume that does not exist is not published
  }
  if (!record) {
    return record.error();
  }
  if (!record->has_published()) {
    return Ok();
  }
  record->clear_published();
  return data_->volume_records().Put(id, *record);
}

Result<std::int64_t> Store::ExpandVolume(const std::string& id,
                                         const CapacityRange& range) {
  MOUNTD_ASSIGN(const auto held, locks_.Take({id}));
  return ExpandLocked(id, range);
}

Result<std::int64_t> Store::ExpandLocked(const std::string& id,
                                         const CapacityRange& range) {
  MOUNTD_ASSIGN(VolumeRecord record, GetVolume(id));
  const std::int64_t now = record.content().capacity_bytes();
  // The current size is the default and the minimum.
  MOUNTD_ASSIGN(const std::int64_t bytes, ChooseSize(range, now, now));
  if (bytes == now) {
    return now;
  }
  const std::lock_guard guard(reserve_mutex_);
  MOUNTD_TRY(CheckRoom(record.content().kind(), bytes - now, id));
  // Grows the image first, so that a record never promises more than there is.
  if (record.content().kind() == IMAGE) {
    MOUNTD_TRY(GrowImage(data_->volumes(), id, bytes));
  }
  record.mutable_content()->set_capacity_bytes(bytes);
  MOUNTD_TRY(data_->volume_records().Put(id, record));
  return bytes;
}

Result<DataDirectory::Space> Store::Capacity(Kind kind) {
  if (kind == TMPFS) {
    return DataDirectory::Space{MemoryBytes(_SC_PHYS_PAGES),
                                MemoryBytes(_SC_AVPHYS_PAGES)};
  }
  MOUNTD_ASSIGN(DataDirectory::Space space, data_->SpaceNow());
  std::int64_t promised = 0;
  std::int64_t owed = 0;
  // The sums include volumes that are still being made.
  MOUNTD_ASSIGN(const auto ids, data_->volume_records().List());
  for (const std::string& id : ids) {
    VolumeRecord record;
    if (data_->volume_records().Get(id, &record)) {
      promised += OnDisk(record.content());
      owed += Owed(data_->volumes(), id, record.content());
    }
  }
  MOUNTD_ASSIGN(const SnapshotRoom snapshots, RoomOfSnapshots());
  promised += snapshots.taken + snapshots.owed;
  owed += snapshots.owed;
  space.available -= owed;
  if (options_.capacity_bytes != 0) {
    space.total = std::min(space.total, options_.capacity_bytes);
    space.available =
        std::min(space.available, options_.capacity_bytes - promised);
  }
  space.available = std::max<std::int64_t>(space.available, 0);
  return space;
}

Result<void> Store::CheckRoom(Kind kind, std::int64_t bytes,
                              const std::string& object) {
  MOUNTD_ASSIGN(const DataDirectory::Space space, Capacity(kind));
  if (bytes > space.total) {
    return OutOfRange(object, "is more than this node has");
  }
  // A tmpfs takes memory only as it fills.
  if (kind != TMPFS && bytes > space.available) {
    return MakeError(
        Code::kResourceExhausted, "capacity_range", object,
        "is more than this node has left; delete volumes or ask for less");
  }
  return Ok();
}

}  // namespace mountd::csi_local
