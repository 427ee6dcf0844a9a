// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "csi-node/types/csi_client.h"
#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Owns /var/lib/mountd/state.db, the records that outlive the boot
// (allocations, plugins, staged volumes and their users, pending tear-downs,
// receipts). Every write is on disk when the call returns (synchronous=FULL).
//
// Thread-safe. Absence is a value (nullopt), not an error.
class StateStore {
 public:
  // If `boot_id` differs from the last writer's, Open makes all published and
  // staged volumes uncertain, because their mounts are gone. Volumes being
  // unpublished stay so. Open also forgets cgroups, because the kernel counts
  // their ids from the beginning again, and pending tear-downs of mounts and
  // networks, because those ended with the boot.
  static Result<std::unique_ptr<StateStore>> Open(const std::string& path,
                                                  const std::string& boot_id);

  // AlreadyExists if there is an allocation or another user's receipt of that
  // name.
  Result<void> AddAllocation(const AllocationRecord& record);
  Result<std::optional<AllocationRecord>> GetAllocation(const std::string& id);
  Result<std::vector<AllocationRecord>> ListAllocations();
  // Returns the allocations of one user's scope, ordered by id.
  Result<std::vector<AllocationRecord>> AllocationsOf(std::uint32_t uid,
                                                      const std::string& scope);
  // Returns the highest epoch that was recorded for the user's scope.
  Result<std::optional<std::uint64_t>> GetEpoch(std::uint32_t uid,
                                                const std::string& scope);
  // Raises the epoch to at least `epoch` and returns the resulting epoch. Makes
  // room if the user has kScopesPerUid scopes, by forgetting the scope without
  // an allocation that was raised longest ago. ResourceExhausted if every scope
  // has one.
  Result<std::uint64_t> RaiseEpoch(std::uint32_t uid, const std::string& scope,
                                   std::uint64_t epoch);
  Result<std::uint32_t> CountAllocations(std::uint32_t uid);
  Result<void> SetAllocationState(const std::string& id, AllocationState state);
  Result<void> SetAllocationCgroup(const std::string& id, std::uint64_t cgroup);
  // Removes the allocation and its pending tear-downs, and keeps `receipt`, in
  // one transaction. Assigns the receipt's serial and lists every volume that
  // was ever detached from this allocation. Removes the user's oldest receipts
  // beyond the limit.
  Result<ReceiptRecord> FinishAllocation(ReceiptRecord receipt);
  Result<std::optional<ReceiptRecord>> GetReceipt(
      const std::string& allocation);

  // Adds the instance, and its plugin if this is the first instance. Returns
  // the instance's serial. FailedPrecondition if the instance's allocation is
  // not prepared.
  Result<std::uint64_t> PutPlugin(const PluginRecord& record);
  // Forbids new volumes of the plugin until the removal is finished or
  // cancelled. The next start of mountd cancels it too. Busy if the plugin has
  // a volume.
  Result<void> BeginPluginRemoval(const std::string& id);
  Result<void> CancelPluginRemoval(const std::string& id);
  // Returns whether the store has a volume of the plugin that this allocation
  // does not use alone: others use it, or its unstage is pending.
  Result<bool> HasVolumesOfOthers(const std::string& plugin,
                                  const std::string& allocation);
  // Removes the plugin with all its instances.
  Result<void> RemovePlugin(const std::string& id);
  // Removes one instance. The plugin stays even without instances.
  Result<void> RemovePluginInstance(std::uint64_t serial);
  Result<void> SetFingerprint(std::uint64_t serial,
                              const csi::Fingerprint& fingerprint);
  // Returns the fingerprints by the instances' serials. Instances without a
  // fingerprint are absent.
  Result<std::map<std::uint64_t, csi::Fingerprint>> ListFingerprints();
  // Returns all instances, the oldest of each plugin first. A plugin without
  // instances has one record with serial 0.
  Result<std::vector<PluginRecord>> ListPlugins();

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
  // volume's row, in one transaction. Notes a published volume for the receipt.
  Result<void> RemovePublication(const PublicationRecord& publication,
                                 bool volume_too);

  // Removes the user's row and adds `owed` for the remaining calls, in one
  // transaction. Used when the plugin is away or tasks have copies.
  Result<void> DepartFromVolume(const PublicationRecord& publication,
                                const DepartedRecord& departed,
                                const OwedRecord& owed);
  Result<std::vector<DepartedRecord>> DepartedFrom(const VolumeKey& key);
  Result<void> SetTargetGone(const DepartedRecord& departed);
  // Clears the pending mark in the receipts of all departed users. With
  // `unstaged` removes the volume's record too.
  Result<void> FinishDeparted(const VolumeRecord& volume, bool unstaged);

  // Adds the record, or counts one more attempt for the same (kind, object).
  Result<void> AddOwed(const OwedRecord& record);
  Result<void> RemoveOwed(OwedKind kind, const std::string& object);
  Result<bool> IsOwed(std::uint64_t id);
  Result<bool> IsOwed(OwedKind kind, const std::string& object);
  Result<std::vector<OwedRecord>> ListOwed();

  // The database of this store (database.h).
  Database& database() { return *database_; }

 private:
  explicit StateStore(std::unique_ptr<Database> database)
      : database_(std::move(database)) {}

  // Called within a transaction.
  Result<void> CheckPrepared(const std::string& allocation);
  Result<void> ForgetScopes(std::uint32_t uid);
  Result<void> DeletePublication(const PublicationRecord& publication);
  Result<void> DeleteVolume(const VolumeKey& key);
  Result<void> NoteDetached(const std::string& allocation, const VolumeKey& key,
                            bool unstaged, bool owed);
  Result<void> SettleDeparted(const VolumeRecord& volume, bool unstaged);
  Result<void> SettleReceipt(const std::string& allocation,
                             const VolumeRecord& volume, bool unstaged);

  std::unique_ptr<Database> database_;
  // Let RemoveOwed skip its statement. Each mount that succeeds calls
  // RemoveOwed, and there is nearly always nothing to remove. The two are equal
  // if a list was empty and nothing was added since.
  std::atomic<std::uint64_t> owed_added_ = 0;
  std::atomic<std::uint64_t> nothing_owed_at_ = UINT64_MAX;
};

}  // namespace mountd::store
