// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Makes and deletes volumes.
#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "csi-node/csi-local/contents.h"
#include "csi-node/csi-local/device_release.h"
#include "csi-node/csi-local/filesystem.h"
#include "csi-node/csi-local/mount_point.h"
#include "csi-node/csi-local/store.h"
#include "csi-node/csi-local/volume_mounts.h"
#include "mountd/base/names.h"

namespace mountd::csi_local {
namespace {

// The id depends on the name alone, so the same name is always the same volume.
std::string VolumeIdOf(const std::string& name) {
  return "vol-" + VolumeKey::Derive("csi-local volume", name).str();
}

Result<bool> IsStaged(const DataDirectory& data, const VolumeRecord& record) {
  const VolumeMounts mounts(data, record);
  MOUNTD_ASSIGN(const auto mounted, mounts.All());
  if (!mounted.empty()) {
    return true;
  }
  // A staged device may have no mount.
  return record.content().access() == ACCESS_BLOCK &&
         record.loop_number() != 0 && !record.releasing();
}

}  // namespace

Result<Content> Store::SourceOf(const VolumeRequest& spec) {
  if (!spec.source_snapshot_id.empty()) {
    MOUNTD_ASSIGN(const SnapshotRecord snapshot,
                  GetSnapshot(spec.source_snapshot_id));
    return snapshot.content();
  }
  MOUNTD_ASSIGN(const VolumeRecord volume, GetVolume(spec.source_volume_id));
  return volume.content();
}

Result<VolumeRecord> Store::CreateVolume(const VolumeRequest& spec) {
  const std::string id = VolumeIdOf(spec.name);
  std::vector<std::string> keys{id};
  for (const std::string& source :
       {spec.source_volume_id, spec.source_snapshot_id}) {
    if (!source.empty()) {
      keys.push_back(source);
    }
  }
  MOUNTD_ASSIGN(const auto held, locks_.Take(keys));
  VolumeRecord record;
  const Result<void> found = data_->volume_records().Get(id, &record);
  if (found && record.state() == READY) {
    if (!IsCompatible(record, spec)) {
      return MakeError(Code::kAlreadyExists, "create", spec.name,
                       "another volume has this name; choose another");
    }
    return record;
  }
  if (found) {
    MOUNTD_TRY(RemoveVolume(record));  // left by a call that failed half way
  } else if (found.error().code != Code::kNotFound) {
    return found.error();
  }
  return MakeVolume(id, spec);
}

Result<VolumeRecord> Store::MakeVolume(const std::string& id,
                                       const VolumeRequest& spec) {
  std::optional<Content> source;
  if (!spec.source_snapshot_id.empty() || !spec.source_volume_id.empty()) {
    MOUNTD_ASSIGN(source, SourceOf(spec));
  }
  VolumeRecord record;
  MOUNTD_ASSIGN(*record.mutable_content(),
                ResolveContent(spec, source ? &*source : nullptr));
  record.set_state(MAKING);
  record.set_id(id);
  record.set_name(spec.name);
  record.mutable_parameters()->insert(spec.parameters.begin(),
                                      spec.parameters.end());
  record.set_source_volume_id(spec.source_volume_id);
  record.set_source_snapshot_id(spec.source_snapshot_id);
  record.set_fresh(record.content().kind() == IMAGE && !source);
  MOUNTD_TRY(Reserve(record));
  const Result<void> filled = Fill(record);
  if (!filled) {
    // If this fails as well, the next call or the next start removes the
    // volume.
    IgnoreBecauseBestEffort(RemoveVolume(record));
    return filled.error();
  }
  record.set_state(READY);
  MOUNTD_TRY(data_->volume_records().Put(id, record));
  return record;
}

Result<void> Store::Reserve(const VolumeRecord& record) {
  // With the lock until the record is written, so that two volumes cannot get
  // the same room.
  const std::lock_guard guard(reserve_mutex_);
  MOUNTD_TRY(CheckRoom(record.content().kind(),
                       record.content().capacity_bytes(), record.name()));
  return data_->volume_records().Put(record.id(), record);
}

Result<void> Store::Fill(const VolumeRecord& record) {
  if (!record.source_snapshot_id().empty()) {
    return CopyContent(data_->snapshots(), record.source_snapshot_id(),
                       data_->volumes(), record.id(), record.content());
  }
  if (!record.source_volume_id().empty()) {
    MOUNTD_ASSIGN(const VolumeRecord source,
                  GetVolume(record.source_volume_id()));
    return CopyVolume(source, data_->volumes(), record.id(), record.content());
  }
  return MakeContent(data_->volumes(), record.id(), record.content());
}

Result<void> Store::CopyVolume(const VolumeRecord& from, const UniqueFd& to,
                               const std::string& name,
                               const Content& content) {
  const VolumeMounts mounts(*data_, from);
  std::optional<Frozen> frozen;
  if (from.content().kind() == IMAGE) {
    // Freezes a mounted image, so that the copy is of one moment.
    MOUNTD_ASSIGN(const auto root, OpenMounted(mounts));
    if (root) {
      MOUNTD_ASSIGN(Frozen now, Frozen::Freeze(*root));
      frozen.emplace(std::move(now));
    } else {
      // Syncs the device, so that the image has all that was written to it.
      MOUNTD_ASSIGN(const auto loop, mounts.Loop());
      if (loop && ::fsync(loop->fd.get()) != 0) {
        return ErrnoError(errno, "fsync", from.id());
      }
    }
  }
  return CopyContent(data_->volumes(), from.id(), to, name, content);
}

Result<void> Store::DeleteVolume(const std::string& id) {
  MOUNTD_ASSIGN(const auto held, locks_.Take({id}));
  VolumeRecord record;
  const Result<void> found = data_->volume_records().Get(id, &record);
  if (!found) {
    return found.error().code == Code::kNotFound ? Ok() : found;
  }
  if (record.state() == READY) {
    if (record.has_published()) {
      return MakeError(Code::kFailedPrecondition, "delete", id,
                       "is still published to this node; unpublish it first");
    }
    MOUNTD_ASSIGN(const bool staged, IsStaged(*data_, record));
    if (staged) {
      return MakeError(Code::kFailedPrecondition, "delete", id,
                       "is still staged or published here; unpublish it first");
    }
    // An unstage that failed may have left the device.
    MOUNTD_TRY(ReleaseDevice(this, &record));
  }
  return RemoveVolume(record);
}

Result<void> Store::RemoveVolume(VolumeRecord record) {
  // Writes the state first, so that after a kill the next start continues the
  // removal.
  record.set_state(DELETING);
  MOUNTD_TRY(data_->volume_records().Put(record.id(), record));
  MOUNTD_TRY(RemoveContent(data_->volumes(), record.id()));
  MOUNTD_TRY(data_->publications().Forget(record.id()));
  return data_->volume_records().Remove(record.id());
}

}  // namespace mountd::csi_local
