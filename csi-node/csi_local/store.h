// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi_local_records.pb.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "csi-node/csi_local/data_directory.h"
#include "csi-node/csi_local/locks.h"
#include "csi-node/csi_local/loop_device.h"
#include "csi-node/csi_local/loop_holds.h"
#include "csi-node/csi_local/volume_spec.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

struct StoreOptions {
  // Of all volumes and snapshots together; 0: what the data directory's file
  // system has.
  std::int64_t capacity_bytes = 0;
  // How many volumes are published to this node at most; 0: any number.
  int max_volumes = 0;
};

// How a volume is published to this node (ControllerPublishVolume).
using PublishedAs = VolumeRecord::Published;

// The volumes and snapshots there are.
//
//             Create                      Delete
//   (none) ─────────► MAKING ──► READY ──────────► DELETING ──► (none)
//
// Each arrow is a record that is on the disk before anything else is done. What
// is not READY is nobody's: it is taken away by the next call of the same name,
// and at the start. Idempotent as the CSI specification has it, and errors
// carry its codes' meaning. Thread-safe.
class Store {
 public:
  static Result<std::unique_ptr<Store>> Open(const std::string& data_dir,
                                             const StoreOptions& options);

  DataDirectory& data() { return *data_; }
  Locks& locks() { return locks_; }
  LoopHolds& holds() { return holds_; }
  const StoreOptions& options() const { return options_; }

  Result<VolumeRecord> CreateVolume(const VolumeSpec& spec);
  // FailedPrecondition while it is published or mounted, or its device is still
  // open somewhere.
  Result<void> DeleteVolume(const std::string& id);
  // NotFound unless it is READY.
  Result<VolumeRecord> GetVolume(const std::string& id);
  Result<std::vector<VolumeRecord>> ListVolumes();

  // A directory by that very id, if there is no volume of it. The caller has
  // the lock of the id.
  Result<VolumeRecord> MakeOnStage(const std::string& id);
  // Replaces a volume's record. With the lock, too.
  Result<void> PutVolume(const VolumeRecord& record);

  // The size it has afterwards.
  Result<std::int64_t> ExpandVolume(const std::string& id,
                                    const CapacityRange& range);
  // The same, with the lock of the id.
  Result<std::int64_t> ExpandLocked(const std::string& id,
                                    const CapacityRange& range);

  Result<void> PublishVolume(const std::string& id, const PublishedAs& as);
  Result<void> UnpublishVolume(const std::string& id);

  Result<SnapshotRecord> CreateSnapshot(const std::string& name,
                                        const std::string& source_volume_id);
  Result<void> DeleteSnapshot(const std::string& id);
  Result<SnapshotRecord> GetSnapshot(const std::string& id);
  Result<std::vector<SnapshotRecord>> ListSnapshots();

  // `total` is the most that one volume may have.
  Result<DataDirectory::Space> Capacity(Kind kind);

 private:
  Store(std::unique_ptr<DataDirectory> data, const StoreOptions& options)
      : data_(std::move(data)), options_(options) {}

  Result<void> Recover();
  Result<void> RecoverVolumes();
  Result<void> RecoverSnapshots();
  Result<void> RecoverImage(VolumeRecord* record);
  Result<void> RecoverDevice(VolumeRecord* record);
  // For records of a version that did not write the access down.
  Result<void> DecideAccess(VolumeRecord* record);
  Result<void> DecideAccess(SnapshotRecord* record);

  Result<VolumeRecord> MakeVolume(const std::string& id,
                                  const VolumeSpec& spec);
  Result<void> Fill(const VolumeRecord& record);
  Result<Content> SourceOf(const VolumeSpec& spec);
  // Writes the intent, if there is room for what it is about.
  Result<void> Reserve(const VolumeRecord& record);
  Result<void> CheckRoom(Kind kind, std::int64_t bytes,
                         const std::string& object);
  Result<void> RemoveVolume(VolumeRecord record);
  Result<void> RemoveSnapshot(SnapshotRecord record);
  // Copies a volume that may be in use, as it is at one moment.
  Result<void> CopyVolume(const VolumeRecord& from, const UniqueFd& to,
                          const std::string& name, const Content& content);
  Result<void> CheckLimit(const std::string& id);

  std::unique_ptr<DataDirectory> data_;
  const StoreOptions options_;
  Locks locks_;
  LoopHolds holds_;
  std::mutex reserve_mutex_;  // between looking for room and taking it
};

}  // namespace mountd::csi_local
