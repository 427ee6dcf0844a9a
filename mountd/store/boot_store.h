// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "mountd/base/result.h"
#include "mountd/store/anchor_table.h"
#include "mountd/store/database.h"
#include "mountd/store/handed_out_table.h"
#include "mountd/store/inbox_table.h"
#include "mountd/store/lease_table.h"
#include "mountd/store/mount_table.h"
#include "mountd/store/network_table.h"

namespace mountd::store {

// Owns /run/mountd/state/boot.db: mounts, networks, host ports, quarantined
// addresses. The file is on a tmpfs and ends with its boot. The database uses
// synchronous=OFF, which survives a kill of mountd.
//
// Thread-safe. Absence is a value (nullopt), not an error.
class BootStore {
 public:
  static Result<std::unique_ptr<BootStore>> Open(const std::string& path);

  // Forgets the records of another boot, which exist if /run outlived that
  // boot. Their mounts and namespaces are gone, and the kernel may have given
  // their ids to other objects. Called once, before any other method.
  Result<void> AdoptBoot(const std::string& boot_id);

  // Runs the writes of `body` as one commit. The store then has all of them or
  // none.
  Result<void> Together(const std::function<Result<void>()>& body) {
    return database_->Transaction(body);
  }

  // The database of this store (database.h).
  Database& database() { return *database_; }

 private:
  explicit BootStore(std::unique_ptr<Database> database)
      : database_(std::move(database)) {}

  const std::unique_ptr<Database> database_;

 public:
  // The queries, by subject. They share the database.
  MountTable mounts{*database_};
  InboxTable inboxes{*database_};
  HandedOutTable handed_out{*database_};
  AnchorTable anchors{*database_};
  NetworkTable networks{*database_};
  LeaseDeadlineTable lease_deadlines{*database_};
};

}  // namespace mountd::store
