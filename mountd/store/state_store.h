// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "mountd/base/result.h"
#include "mountd/store/allocation_table.h"
#include "mountd/store/database.h"
#include "mountd/store/lease_table.h"
#include "mountd/store/owed_table.h"
#include "mountd/store/plugin_table.h"
#include "mountd/store/unchecked_table.h"
#include "mountd/store/volume_table.h"

namespace mountd::store {

// Owns /var/lib/mountd/state.db, the records that outlive the boot
// (allocations, plugins, staged volumes and their users, pending tear-downs,
// receipts, leases and fences). Every write is on disk when the call returns
// (synchronous=FULL).
//
// Thread-safe. Absence is a value (nullopt), not an error.
class StateStore {
 public:
  // If `boot_id` differs from the last writer's, Open makes all published and
  // staged volumes uncertain, because their mounts are gone. A volume that is
  // being unpublished keeps that state. Open also forgets cgroups, because the
  // kernel may use their ids again. Open forgets which tasks may have kept
  // mounts, and pending tear-downs of mounts and networks, because all of these
  // ended with the boot.
  static Result<std::unique_ptr<StateStore>> Open(const std::string& path,
                                                  const std::string& boot_id);

  // The database of this store (database.h).
  Database& database() { return *database_; }

 private:
  explicit StateStore(std::unique_ptr<Database> database)
      : database_(std::move(database)) {}

  const std::unique_ptr<Database> database_;

 public:
  // The queries, by subject. They share the database.
  AllocationTable allocations{*database_};
  LeaseTable leases{*database_};
  OwedTable owed{*database_};
  PluginTable plugins{*database_, allocations};
  UncheckedTable unchecked{*database_};
  VolumeTable volumes{*database_, allocations, owed};
};

}  // namespace mountd::store
