// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "csi-node/csi_client.h"
#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// /var/lib/mountd/state.db: what outlives the boot (allocations, plugins,
// staged volumes and their users, owed tear-downs, receipts). Every write is on
// disk when the call returns (synchronous=FULL).
//
// Thread-safe. Absence is a value (nullopt), not an error.
class StateStore {
 public:
  // `boot_id`: if the store was last written in another boot, all published and
  // staged volumes become uncertain, since their mounts are gone; those being
  // unpublished stay so. Cgroups are forgotten, as their ids begin anew; so are
  // owed tear-downs of mounts and networks, which went with the boot.
  static Result<std::unique_ptr<StateStore>> Open(const std::string& path,
                                                  const std::string& boot_id);

  // AlreadyExists if there is one, or another user's receipt of that name.
  Result<void> AddAllocation(const AllocationRecord& record);
  Result<std::optional<AllocationRecord>> GetAllocation(const std::string& id);
  Result<std::vector<AllocationRecord>> ListAllocations();
  // Of one user's scope, by their ids.
  Result<std::vector<AllocationRecord>> AllocationsOf(std::uint32_t uid,
                                                      const std::string& scope);
  // The highest that was recorded for the user's scope.
  Result<std::optional<std::uint64_t>> GetEpoch(std::uint32_t uid,
                                                const std::string& scope);
  // To at least `epoch`; answers what it is then. A user has so many scopes: of
  // those without an allocation the one raised longest ago is forgotten;
  // ResourceExhausted if there is none.
  Result<std::uint64_t> RaiseEpoch(std::uint32_t uid, const std::string& scope,
                                   std::uint64_t epoch);
  Result<std::uint32_t> CountAllocations(std::uint32_t uid);
  Result<void> SetAllocationState(const std::string& id, AllocationState state);
  Result<void> SetAllocationCgroup(const std::string& id, std::uint64_t cgroup);
  // Removes the allocation and what is owed for it, and keeps `receipt`, in one
  // transaction. Its serial is assigned here, and its volumes are all that were
  // ever detached from this allocation. The user's oldest receipts go.
  Result<ReceiptRecord> FinishAllocation(ReceiptRecord receipt);
  Result<std::optional<ReceiptRecord>> GetReceipt(
      const std::string& allocation);

  // Adds the instance, and its plugin if it is the first; answers its serial.
  // FailedPrecondition if the instance's allocation is not prepared.
  Result<std::uint64_t> PutPlugin(const PluginRecord& record);
  // From here on no volume of the plugin can be added, until the removal is
  // finished or cancelled; another start cancels it, too. Busy if it has any.
  Result<void> BeginPluginRemoval(const std::string& id);
  Result<void> CancelPluginRemoval(const std::string& id);
  // Whether a volume of the plugin is recorded of which this allocation is not
  // the only user: others use it, or its unstage is pending.
  Result<bool> HasVolumesOfOthers(const std::string& plugin,
                                  const std::string& allocation);
  // The plugin with all its instances.
  Result<void> RemovePlugin(const std::string& id);
  // Its plugin stays, also without any.
  Result<void> RemovePluginInstance(std::uint64_t serial);
  Result<void> SetFingerprint(std::uint64_t serial,
                              const csi::Fingerprint& fingerprint);
  // By the instances' serials; of those that were never told one, none.
  Result<std::map<std::uint64_t, csi::Fingerprint>> ListFingerprints();
  // All instances, the oldest of each plugin first; of a plugin without any one
  // record with serial 0.
  Result<std::vector<PluginRecord>> ListPlugins();

  // The intents of a publish, in one transaction: the volume's record, if it is
  // new, and its user's. NotFound if the plugin is not registered.
  Result<void> AddPublication(const VolumeRecord& volume,
                              const PublicationRecord& publication);
  Result<std::optional<VolumeRecord>> GetVolume(const VolumeKey& key);
  Result<std::vector<VolumeRecord>> ListVolumes();
  Result<void> SetVolumeState(const VolumeKey& key, VolumeState state);
  // The state, and with what it is staged now: contexts and needs.
  Result<void> SetVolumeStaging(const VolumeRecord& volume);
  Result<std::optional<PublicationRecord>> GetPublication(
      const std::string& allocation, const std::string& alias);
  Result<std::vector<PublicationRecord>> ListPublications();
  Result<std::vector<PublicationRecord>> PublicationsOf(
      const std::string& allocation);
  Result<std::vector<PublicationRecord>> UsersOf(const VolumeKey& key);
  Result<void> SetPublicationState(const PublicationRecord& publication);
  // The user's row, what is owed for it, and with the last user the volume's,
  // in one transaction; what was published is noted for the receipt.
  Result<void> RemovePublication(const PublicationRecord& publication,
                                 bool volume_too);

  // The plugin is away, or tasks have copies: the user's row goes, and what is
  // left to be done of it is owed, in one transaction.
  Result<void> DepartFromVolume(const PublicationRecord& publication,
                                const DepartedRecord& departed,
                                const OwedRecord& owed);
  Result<std::vector<DepartedRecord>> DepartedFrom(const VolumeKey& key);
  Result<void> SetTargetGone(const DepartedRecord& departed);
  // Nothing is owed any more to those who departed: their receipts say so. With
  // `unstaged` the volume's record goes, too.
  Result<void> FinishDeparted(const VolumeRecord& volume, bool unstaged);

  // Adds it, or counts one more attempt for the same (kind, object).
  Result<void> AddOwed(const OwedRecord& record);
  Result<void> RemoveOwed(OwedKind kind, const std::string& object);
  Result<bool> IsOwed(std::uint64_t id);
  Result<bool> IsOwed(OwedKind kind, const std::string& object);
  Result<std::vector<OwedRecord>> ListOwed();

  // Of its file (database.h).
  Database& database() { return *database_; }

 private:
  explicit StateStore(std::unique_ptr<Database> database)
      : database_(std::move(database)) {}

  // Within a transaction.
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
  // Each mount that succeeds forgives what may be owed for it, and nearly never
  // is anything: while none was added since none was found, none is looked for.
  std::atomic<std::uint64_t> owed_added_ = 0;
  std::atomic<std::uint64_t> nothing_owed_at_ = UINT64_MAX;
};

}  // namespace mountd::store
