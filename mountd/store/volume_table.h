// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/allocation_table.h"
#include "mountd/store/database.h"
#include "mountd/store/owed_table.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries volumes, their users (publications), and the users that departed
// while calls to the plugin were still pending. Thread-safe. Never keeps a
// secret of a volume.
class VolumeTable {
 public:
  VolumeTable(Database& database, AllocationTable& allocations, OwedTable& owed)
      : database_(&database), allocations_(allocations), owed_(owed) {}

  // Writes the intents of a publish in one transaction: the volume's record if
  // it is new, and its user's record. NotFound if the plugin is not registered.
  Result<void> AddPublication(const VolumeRecord& volume,
                              const PublicationRecord& publication);
  Result<std::optional<VolumeRecord>> GetVolume(const VolumeKey& key);
  Result<std::vector<VolumeRecord>> ListVolumes();
  Result<void> SetVolumeState(const VolumeKey& key, VolumeState state);
  // Updates the state, and the contexts and needs with which the volume is
  // staged now.
  Result<void> SetVolumeStaging(const VolumeRecord& volume);
  Result<std::optional<PublicationRecord>> GetPublication(
      const std::string& allocation, const std::string& alias);
  Result<std::vector<PublicationRecord>> ListPublications();
  Result<std::vector<PublicationRecord>> PublicationsOf(
      const std::string& allocation);
  Result<std::vector<PublicationRecord>> UsersOf(const VolumeKey& key);
  Result<void> SetPublicationState(const PublicationRecord& publication);
  // Removes the user's row, its pending tear-down, and with `volume_too` the
  // volume's row, in one transaction. If the volume was published, notes it for
  // the receipt.
  Result<void> RemovePublication(const PublicationRecord& publication,
                                 bool volume_too);
  // Removes the user's row and adds `owed` for the remaining calls, in one
  // transaction. Used when the plugin is away or tasks have copies.
  Result<void> DepartFromVolume(const PublicationRecord& publication,
                                const DepartedRecord& departed,
                                const OwedRecord& owed);
  Result<std::vector<DepartedRecord>> DepartedFrom(const VolumeKey& key);
  Result<void> SetTargetGone(const DepartedRecord& departed);
  // Removes the pending mark from the receipts of all users who departed. With
  // `unstaged` removes the volume's record too.
  Result<void> FinishDeparted(const VolumeRecord& volume, bool unstaged);

 private:
  // Called within a transaction.
  Result<void> DeletePublication(const PublicationRecord& publication);
  Result<void> DeleteVolume(const VolumeKey& key);
  Result<void> NoteDetached(const std::string& allocation, const VolumeKey& key,
                            bool unstaged, bool owed);
  Result<void> SettleDeparted(const VolumeRecord& volume, bool unstaged);
  Result<void> SettleReceipt(const std::string& allocation,
                             const VolumeRecord& volume, bool unstaged);

  Database* const database_;
  AllocationTable& allocations_;
  OwedTable& owed_;
};

}  // namespace mountd::store
