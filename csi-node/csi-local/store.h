// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi_local_records.pb.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "csi-node/csi-local/data_directory.h"
#include "csi-node/csi-local/locks.h"
#include "csi-node/csi-local/loop_device.h"
#include "csi-node/csi-local/loop_holds.h"
#include "csi-node/csi-local/volume_request.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

struct StoreOptions {
  // The capacity of all volumes and snapshots together; 0: the space of the
  // data directory's file system.
  std::int64_t capacity_bytes = 0;
  // The most volumes that may be published to this node; 0: any number.
  int max_volumes = 0;
};

// How a volume is published to this node (ControllerPublishVolume).
using PublishedAs = VolumeRecord::Published;

// Owns the volumes and snapshots.
//
//             Create                      Delete
//   (none) ─────────► MAKING ──► READY ──────────► DELETING ──► (none)
//
// Puts the record of each arrow on the disk before it does anything else. A
// volume that is not READY belongs to nobody; the next call with the same name
// removes it, and so does the next start. Idempotent as the CSI specification
// says; errors have the meaning of its codes. Thread-safe.
class Store {
 public:
  static Result<std::unique_ptr<Store>> Open(const std::string& data_dir,
                                             const StoreOptions& options);

  DataDirectory& data() { return *data_; }
  Locks& locks() { return locks_; }
  LoopHolds& holds() { return holds_; }
  const StoreOptions& options() const { return options_; }

  Result<VolumeRecord> CreateVolume(const VolumeRequest& spec);
  // FailedPrecondition while the volume is published or mounted, or somebody
  // has its device open.
  Result<void> DeleteVolume(const std::string& id);
  // NotFound if the volume is not READY.
  Result<VolumeRecord> GetVolume(const std::string& id);
  Result<std::vector<VolumeRecord>> ListVolumes();

  // Makes a directory with that very id, if there is no such volume. The caller
  // holds the lock of the id.
  Result<VolumeRecord> MakeOnStage(const std::string& id);
  // Replaces a volume's record. The caller holds the lock of the id.
  Result<void> PutVolume(const VolumeRecord& record);

  // Returns the new size.
  Result<std::int64_t> ExpandVolume(const std::string& id,
                                    const CapacityRange& range);
  // Does the same. The caller holds the lock of the id.
  Result<std::int64_t> ExpandLocked(const std::string& id,
                                    const CapacityRange& range);

  Result<void> PublishVolume(const std::string& id, const PublishedAs& as);
  Result<void> UnpublishVolume(const std::string& id);

  Result<SnapshotRecord> CreateSnapshot(const std::string& name,
                                        const std::string& source_volume_id);
  Result<void> DeleteSnapshot(const std::string& id);
  Result<SnapshotRecord> GetSnapshot(const std::string& id);
  Result<std::vector<SnapshotRecord>> ListSnapshots();

  // Sets `total` to the most that one volume may have.
  Result<DataDirectory::Space> Capacity(Kind kind);

 private:
  Store(std::unique_ptr<DataDirectory> data, const StoreOptions& options)
      : data_(std::move(data)), options_(options) {}

  Result<void> Recover();
  Result<void> RecoverVolumes();
  Result<void> RecoverSnapshots();
  Result<void> RecoverImage(VolumeRecord* record);
  Result<void> RecoverDevice(VolumeRecord* record);
  // Decides the access of a record in which an older version wrote no access.
  Result<void> DecideAccess(VolumeRecord* record);
  Result<void> DecideAccess(SnapshotRecord* record);

  Result<VolumeRecord> MakeVolume(const std::string& id,
                                  const VolumeRequest& spec);
  Result<void> Fill(const VolumeRecord& record);
  Result<Content> SourceOf(const VolumeRequest& spec);
  // Write the intent, if there is room.
  Result<void> Reserve(const VolumeRecord& record);
  Result<void> ReserveSnapshot(const SnapshotRecord& record);
  struct SnapshotRoom {
    std::int64_t taken = 0;  // bytes on the disk
    std::int64_t owed = 0;   // bytes that the copies being made still need
  };
  Result<SnapshotRoom> RoomOfSnapshots();
  Result<void> CheckRoom(Kind kind, std::int64_t bytes,
                         const std::string& object);
  Result<void> RemoveVolume(VolumeRecord record);
  Result<void> RemoveSnapshot(SnapshotRecord record);
  // Copies a volume that may be in use, as of one moment.
  Result<void> CopyVolume(const VolumeRecord& from, const UniqueFd& to,
                          const std::string& name, const Content& content);
  Result<void> CheckLimit(const std::string& id);

  std::unique_ptr<DataDirectory> data_;
  const StoreOptions options_;
  Locks locks_;
  LoopHolds holds_;
  std::mutex reserve_mutex_;  // held from the check for room to the record
};

}  // namespace mountd::csi_local
