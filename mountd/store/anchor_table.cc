// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/anchor_table.h"

namespace mountd::store {

Result<void> AnchorTable::DoubtAnchor(const AnchorKey& key) {
  MOUNTD_TRY(database_->Run(
      "INSERT OR REPLACE INTO anchors(source_kind,source,anchor_id) "
      "VALUES(?1,?2,0)",
      static_cast<int>(key.kind), key.source));
  return Ok();
}

Result<void> AnchorTable::PutAnchor(const AnchorKey& key,
                                    std::uint64_t anchor_id) {
  MOUNTD_TRY(database_->Run(
      "INSERT INTO anchors(source_kind,source,anchor_id) VALUES(?1,?2,?3) "
      // Does not write a page if the id is unchanged.
      "ON CONFLICT DO UPDATE SET anchor_id=?3 WHERE anchor_id<>?3",
      static_cast<int>(key.kind), key.source, anchor_id));
  return Ok();
}

Result<std::optional<std::uint64_t>> AnchorTable::GetAnchor(
    const AnchorKey& key) {
  std::optional<std::uint64_t> found;
  MOUNTD_TRY(database_->Query(
      "SELECT anchor_id FROM anchors WHERE source_kind=?1 AND source=?2",
      [&](const Row& row) { found = row.Bits(0); }, static_cast<int>(key.kind),
      key.source));
  return found;
}

Result<std::map<AnchorKey, std::uint64_t>> AnchorTable::ListAnchors() {
  std::map<AnchorKey, std::uint64_t> all;
  MOUNTD_TRY(database_->Query(
      "SELECT source_kind,source,anchor_id FROM anchors", [&](const Row& row) {
        all.emplace(
            AnchorKey{static_cast<exec::SourceKind>(row.Int(0)), row.Text(1)},
            row.Bits(2));
      }));
  return all;
}

Result<void> AnchorTable::RemoveAnchor(const AnchorKey& key) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM anchors WHERE source_kind=?1 AND source=?2",
                     static_cast<int>(key.kind), key.source));
  return Ok();
}

}  // namespace mountd::store
