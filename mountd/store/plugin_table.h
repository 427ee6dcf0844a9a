// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "csi-node/types/csi_client.h"
#include "mountd/base/result.h"
#include "mountd/store/allocation_table.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries plugins and their instances. Thread-safe. Never keeps a secret of a
// plugin.
class PluginTable {
 public:
  PluginTable(Database& database, AllocationTable& allocations)
      : database_(&database), allocations_(allocations) {}

  // Adds or updates the instance and its plugin. Returns the instance's serial.
  // FailedPrecondition if the instance's allocation is not prepared.
  Result<std::uint64_t> PutPlugin(const PluginRecord& record);
  // Forbids new volumes of the plugin until the removal is finished or
  // cancelled. The next start of mountd cancels it, too. Busy if the plugin has
  // a volume or does not exist.
  Result<void> BeginPluginRemoval(const std::string& id);
  Result<void> CancelPluginRemoval(const std::string& id);
  // Returns whether the plugin has a volume that this allocation does not use
  // alone, because others use it, too, or because its unstage is pending.
  Result<bool> HasVolumesOfOthers(const std::string& plugin,
                                  const std::string& allocation);
  // Removes the plugin with all its instances.
  Result<void> RemovePlugin(const std::string& id);
  // Removes one instance. The plugin stays even without instances.
  Result<void> RemovePluginInstance(std::uint64_t serial);
  // `former_node_ids` are the ids that the instance reported before, the newest
  // first.
  Result<void> SetFingerprint(std::uint64_t serial,
                              const csi::Fingerprint& fingerprint,
                              const std::vector<std::string>& former_node_ids);
  // Returns the fingerprints by the instances' serials. Instances without a
  // fingerprint are absent.
  Result<std::map<std::uint64_t, csi::Fingerprint>> ListFingerprints();
  // Returns the former node ids by the instances' serials. Instances without
  // any are absent.
  Result<std::map<std::uint64_t, std::vector<std::string>>> ListFormerNodeIds();
  // Sets the node ids that removed instances of the plugin have reported.
  Result<void> SetRemovedNodeIds(const std::string& id,
                                 const std::vector<std::string>& node_ids);
  // Returns the node ids of removed instances, by plugin. Plugins without such
  // an id are absent.
  Result<std::map<std::string, std::vector<std::string>>> ListRemovedNodeIds();
  // Returns all instances, the oldest of each plugin first. A plugin without
  // instances has one record with serial 0.
  Result<std::vector<PluginRecord>> ListPlugins();

 private:
  // Called within a transaction.
  Result<void> CheckPrepared(const std::string& allocation);

  Database* const database_;
  AllocationTable& allocations_;
};

}  // namespace mountd::store
