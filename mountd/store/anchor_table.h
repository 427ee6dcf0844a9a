// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries anchors. Thread-safe. Never has two records of one source.
class AnchorTable {
 public:
  explicit AnchorTable(Database& database) : database_(&database) {}

  // Marks an anchor as doubtful by the id 0: the anchor may exist or not, and
  // its id is unknown. This happens if a plan may have mounted the anchor and
  // its answer was lost.
  Result<void> DoubtAnchor(const AnchorKey& key);
  Result<void> PutAnchor(const AnchorKey& key, std::uint64_t anchor_id);
  Result<std::optional<std::uint64_t>> GetAnchor(const AnchorKey& key);
  Result<std::map<AnchorKey, std::uint64_t>> ListAnchors();
  Result<void> RemoveAnchor(const AnchorKey& key);

 private:
  Database* const database_;
};

}  // namespace mountd::store
