// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries mounts. Thread-safe. Never has two records of one allocation, task
// and name.
class MountTable {
 public:
  explicit MountTable(Database& database) : database_(&database) {}

  // Adds the mount or replaces its record.
  Result<void> PutMount(const MountRecord& record);
  // Updates the state, ids and groups of a recorded mount. Writes fewer pages
  // than PutMount; SetMountState writes one.
  Result<void> UpdateMount(const MountRecord& record);
  Result<void> SetMountState(const MountRecord& record, MountRecordState state);
  Result<std::optional<MountRecord>> GetMount(const std::string& allocation,
                                              const std::string& task,
                                              const std::string& name);
  Result<std::optional<MountRecord>> FindMount(std::uint64_t mount_id);
  Result<std::vector<MountRecord>> ListMounts();
  Result<std::vector<MountRecord>> MountsOf(const std::string& allocation);
  // The counts read every row of the allocation or user.
  Result<std::uint32_t> CountMounts(const std::string& allocation);
  // Returns the sum over all tmpfs mounts of the allocation.
  Result<std::uint64_t> TmpfsBytesOf(const std::string& allocation);
  Result<std::uint32_t> CountMountsOfUser(std::uint32_t uid);
  // Counts the user's mounts of own directories into which later mounts
  // propagate. Also counts each found mount that has a master, because its
  // source is unknown and may be such a directory.
  Result<std::uint32_t> CountPropagatedDirectories(std::uint32_t uid);
  Result<bool> HasMountsOf(const AnchorKey& key);
  // Returns whether the store had a record.
  Result<bool> RemoveMount(const MountRecord& record);

 private:
  Database* const database_;
};

}  // namespace mountd::store
