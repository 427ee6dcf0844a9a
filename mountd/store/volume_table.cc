// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/volume_table.h"

#include "mountd/store/columns.h"

namespace mountd::store {
namespace {

constexpr std::string_view kSelectVolume =
    "SELECT key,plugin,volume_id,state,access_mode,fs_type,"
    "capability_digest,publish_context,volume_context,uid,block,"
    "volume_mount_group,needs FROM volumes";

VolumeRecord ReadVolume(const Row& row) {
  VolumeRecord record;
  record.key = VolumeKey::Derive(row.Text(1), row.Text(2));
  record.plugin = row.Text(1);
  record.volume_id = row.Text(2);
  record.state = static_cast<VolumeState>(row.Int(3));
  record.access_mode = static_cast<int>(row.Int(4));
  record.fs_type = row.Text(5);
  record.capability_digest = row.Text(6);
  record.publish_context = MapFromColumn(row.Text(7));
  record.volume_context = MapFromColumn(row.Text(8));
  record.uid = static_cast<std::uint32_t>(row.Int(9));
  record.block = row.Int(10) != 0;
  record.volume_mount_group = row.Text(11);
  record.needs = static_cast<std::uint32_t>(row.Int(12));
  return record;
}

// Returns the first row, if any.
template <typename T>
Result<std::optional<T>> First(Result<std::vector<T>> rows) {
  if (!rows) {
    return std::move(rows).error();
  }
  return rows->empty() ? std::optional<T>() : std::optional<T>((*rows)[0]);
}

// Returns publications. `condition` filters them by the alias p.
template <typename... Args>
Result<std::vector<PublicationRecord>> SelectPublications(
    Database& database, std::string_view condition, const Args&... arguments) {
  const std::string sql =
      "SELECT p.allocation,p.alias,p.read_only,p.state,p.mount_id,"
      "v.plugin,v.volume_id,p.device,p.was_published,p.file_system "
      "FROM publications p JOIN "
      "volumes v "
      "ON v.key=p.key WHERE " +
      std::string(condition) + " ORDER BY p.allocation,p.alias";
  std::vector<PublicationRecord> all;
  MOUNTD_TRY(database.Query(
      sql,
      [&](const Row& row) {
        all.push_back({VolumeKey::Derive(row.Text(5), row.Text(6)), row.Text(0),
                       row.Text(1), row.Int(2) != 0,
                       static_cast<PublicationState>(row.Int(3)), row.Bits(4),
                       row.Bits(7), row.Int(8) != 0,
                       FileSystemFromColumn(row.Text(9))});
      },
      arguments...));
  return all;
}

}  // namespace

Result<void> VolumeTable::AddPublication(const VolumeRecord& volume,
                                         const PublicationRecord& publication) {
  return database_->Transaction([&]() -> Result<void> {
    bool registered = false;
    MOUNTD_TRY(database_->Query(
        "SELECT 1 FROM plugins WHERE id=?1 AND removing=0",
        [&](const Row& /*row*/) { registered = true; }, volume.plugin));
    if (!registered) {
      return MakeError(Code::kNotFound, "use", "plugin " + volume.plugin,
                       "is not registered, or is being unregistered");
    }
    MOUNTD_TRY(database_->Run(
        "INSERT OR IGNORE INTO volumes(key,plugin,volume_id,state,"
        "access_mode,fs_type,capability_digest,publish_context,"
        "volume_context,uid,block,volume_mount_group,needs) "
        "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
        volume.key.str(), volume.plugin, volume.volume_id,
        static_cast<int>(volume.state), volume.access_mode, volume.fs_type,
        volume.capability_digest, ToColumn(volume.publish_context),
        ToColumn(volume.volume_context), volume.uid,
        static_cast<int>(volume.block), volume.volume_mount_group,
        volume.needs));
    MOUNTD_TRY(database_->Run(
        // The allocation uses the volume again, so its receipt must not list it
        // as detached by an earlier use.
        "DELETE FROM detached WHERE allocation=?1 AND plugin=?2 AND "
        "volume_id=?3",
        publication.allocation, volume.plugin, volume.volume_id));
    MOUNTD_TRY(database_->Run(
        "INSERT INTO publications(key,allocation,alias,read_only,state,"
        "mount_id,device,was_published) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
        publication.key.str(), publication.allocation, publication.alias,
        static_cast<int>(publication.read_only),
        static_cast<int>(publication.state), publication.mount_id,
        publication.device, static_cast<int>(publication.was_published)));
    return Ok();
  });
}

Result<std::optional<VolumeRecord>> VolumeTable::GetVolume(
    const VolumeKey& key) {
  static const std::string sql = std::string(kSelectVolume) + " WHERE key=?1";
  std::optional<VolumeRecord> found;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { found = ReadVolume(row); }, key.str()));
  return found;
}

Result<std::vector<VolumeRecord>> VolumeTable::ListVolumes() {
  static const std::string sql =
      std::string(kSelectVolume) + " ORDER BY plugin,volume_id";
  std::vector<VolumeRecord> all;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { all.push_back(ReadVolume(row)); }));
  return all;
}

Result<void> VolumeTable::SetVolumeState(const VolumeKey& key,
                                         VolumeState state) {
  MOUNTD_TRY(database_->Run("UPDATE volumes SET state=?2 WHERE key=?1",
                            key.str(), static_cast<int>(state)));
  return Ok();
}

Result<void> VolumeTable::SetVolumeStaging(const VolumeRecord& volume) {
  MOUNTD_TRY(database_->Run(
      "UPDATE volumes SET state=?2,publish_context=?3,volume_context=?4,"
      "needs=?5 WHERE key=?1",
      volume.key.str(), static_cast<int>(volume.state),
      ToColumn(volume.publish_context), ToColumn(volume.volume_context),
      volume.needs));
  return Ok();
}

Result<std::optional<PublicationRecord>> VolumeTable::GetPublication(
    const std::string& allocation, const std::string& alias) {
  return First(SelectPublications(*database_, "p.allocation=?1 AND p.alias=?2",
                                  allocation, alias));
}

Result<std::vector<PublicationRecord>> VolumeTable::ListPublications() {
  return SelectPublications(*database_, "true");
}

Result<std::vector<PublicationRecord>> VolumeTable::PublicationsOf(
    const std::string& allocation) {
  return SelectPublications(*database_, "p.allocation=?1", allocation);
}

Result<std::vector<PublicationRecord>> VolumeTable::UsersOf(
    const VolumeKey& key) {
  return SelectPublications(*database_, "p.key=?1", key.str());
}

Result<void> VolumeTable::SetPublicationState(
    const PublicationRecord& publication) {
  MOUNTD_TRY(database_->Run(
      "UPDATE publications SET state=?3, mount_id=?4, device=?5, "
      "was_published=?6, file_system=?7 WHERE allocation=?1 AND alias=?2",
      publication.allocation, publication.alias,
      static_cast<int>(publication.state), publication.mount_id,
      publication.device, static_cast<int>(publication.was_published),
      ToColumn(publication.file_system)));
  return Ok();
}

// Removes the row and its pending tear-down.
Result<void> VolumeTable::DeletePublication(
    const PublicationRecord& publication) {
  MOUNTD_TRY(owed_.RemoveOwed(
      OwedKind::kUnpublish, publication.allocation + "/" + publication.alias));
  MOUNTD_TRY(database_->Run(
      "DELETE FROM publications WHERE allocation=?1 AND alias=?2",
      publication.allocation, publication.alias));
  return Ok();
}

Result<void> VolumeTable::NoteDetached(const std::string& allocation,
                                       const VolumeKey& key, bool unstaged,
                                       bool owed) {
  MOUNTD_TRY(database_->Run(
      // Copies plugin and volume id, because the volume's row may be deleted.
      "INSERT OR REPLACE INTO detached(allocation,plugin,volume_id,unstaged,"
      "owed) SELECT ?1,plugin,volume_id,?2,?3 FROM volumes WHERE key=?4",
      allocation, static_cast<int>(unstaged), static_cast<int>(owed),
      key.str()));
  return Ok();
}

Result<void> VolumeTable::RemovePublication(
    const PublicationRecord& publication, bool volume_too) {
  return database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(DeletePublication(publication));
    // Do not report a publication as detached that was never published.
    if (publication.state != PublicationState::kPublishing) {
      MOUNTD_TRY(NoteDetached(publication.allocation, publication.key,
                              volume_too, /*owed=*/false));
    }
    if (!volume_too) {
      return Ok();
    }
    // This unstage also completes the calls that are pending for users who
    // departed earlier.
    MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                  GetVolume(publication.key));
    if (volume) {
      MOUNTD_TRY(SettleDeparted(*volume, /*unstaged=*/true));
    }
    return DeleteVolume(publication.key);
  });
}

Result<void> VolumeTable::DepartFromVolume(const PublicationRecord& publication,
                                           const DepartedRecord& departed,
                                           const OwedRecord& owed) {
  return database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(DeletePublication(publication));
    MOUNTD_TRY(NoteDetached(publication.allocation, publication.key,
                            /*unstaged=*/false, /*owed=*/true));
    MOUNTD_TRY(database_->Run(
        "INSERT OR REPLACE INTO departed(key,allocation,target_left,cgroup,"
        "file_system) VALUES(?1,?2,?3,?4,?5)",
        departed.key.str(), departed.allocation,
        static_cast<int>(departed.target_left), departed.cgroup,
        ToColumn(departed.file_system)));
    return owed_.AddOwed(owed);
  });
}

Result<std::vector<DepartedRecord>> VolumeTable::DepartedFrom(
    const VolumeKey& key) {
  std::vector<DepartedRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT allocation,target_left,cgroup,file_system FROM departed "
      "WHERE key=?1 "
      "ORDER BY allocation",
      [&](const Row& row) {
        all.push_back({key, row.Text(0), row.Int(1) != 0, row.Bits(2),
                       FileSystemFromColumn(row.Text(3))});
      },
      key.str()));
  return all;
}

Result<void> VolumeTable::SetTargetGone(const DepartedRecord& departed) {
  MOUNTD_TRY(database_->Run(
      "UPDATE departed SET target_left=0 WHERE key=?1 AND allocation=?2",
      departed.key.str(), departed.allocation));
  return Ok();
}

Result<void> VolumeTable::FinishDeparted(const VolumeRecord& volume,
                                         bool unstaged) {
  return database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(SettleDeparted(volume, unstaged));
    return unstaged ? DeleteVolume(volume.key) : Ok();
  });
}

Result<void> VolumeTable::SettleDeparted(const VolumeRecord& volume,
                                         bool unstaged) {
  MOUNTD_ASSIGN(const std::vector<DepartedRecord> all,
                DepartedFrom(volume.key));
  for (const DepartedRecord& departed : all) {
    MOUNTD_TRY(SettleReceipt(departed.allocation, volume, unstaged));
  }
  MOUNTD_TRY(owed_.RemoveOwed(OwedKind::kUnstage,
                              volume.plugin + "/" + volume.volume_id));
  MOUNTD_TRY(
      database_->Run("DELETE FROM departed WHERE key=?1", volume.key.str()));
  return Ok();
}

// Updates the allocation's list and its receipt, because the allocation may
// have been released since.
Result<void> VolumeTable::SettleReceipt(const std::string& allocation,
                                        const VolumeRecord& volume,
                                        bool unstaged) {
  MOUNTD_TRY(database_->Run(
      "UPDATE detached SET owed=0,unstaged=?4 WHERE allocation=?1 AND "
      "plugin=?2 AND volume_id=?3 AND owed=1",
      allocation, volume.plugin, volume.volume_id, static_cast<int>(unstaged)));
  MOUNTD_ASSIGN(std::optional<ReceiptRecord> receipt,
                allocations_.GetReceipt(allocation));
  if (!receipt) {
    return Ok();
  }
  for (ReceiptRecord::Volume& one : receipt->volumes) {
    if (one.owed && one.plugin == volume.plugin &&
        one.volume_id == volume.volume_id) {
      one.owed = false;
      one.unstaged = unstaged;
    }
  }
  MOUNTD_TRY(
      database_->Run("UPDATE receipts SET volumes=?2 WHERE allocation=?1",
                     allocation, ToColumn(receipt->volumes)));
  return Ok();
}

Result<void> VolumeTable::DeleteVolume(const VolumeKey& key) {
  MOUNTD_TRY(database_->Run("DELETE FROM volumes WHERE key=?1", key.str()));
  return Ok();
}

}  // namespace mountd::store
