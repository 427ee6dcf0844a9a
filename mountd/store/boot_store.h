// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Owns /run/mountd/state/boot.db: mounts, networks, host ports, quarantined
// addresses. The file is on a tmpfs and ends with its boot. It uses
// synchronous=OFF, which survives a kill of mountd.
//
// Thread-safe. Absence is a value (nullopt), not an error.
class BootStore {
 public:
  static Result<std::unique_ptr<BootStore>> Open(const std::string& path);

  // Forgets the records of another boot, which exist where /run outlived that
  // boot. Their mounts and namespaces are gone, and the kernel may have given
  // their ids to others. Called once, before anything else.
  Result<void> AdoptBoot(const std::string& boot_id);

  // Runs the writes of `body` as one commit. The store then has all of them or
  // none.
  Result<void> Together(const std::function<Result<void>()>& body) {
    return database_->Transaction(body);
  }

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
  // Counts read every row of the allocation or user.
  Result<std::uint32_t> CountMounts(const std::string& allocation);
  // Returns the sum over all tmpfs mounts of the allocation.
  Result<std::uint64_t> TmpfsBytesOf(const std::string& allocation);
  Result<std::uint32_t> CountMountsOfUser(std::uint32_t uid);
  Result<bool> HasMountsOf(const AnchorKey& key);
  // Returns whether the store had a record.
  Result<bool> RemoveMount(const MountRecord& record);

  Result<void> PutInbox(const InboxRecord& record);
  Result<std::vector<std::string>> InboxesOf(const std::string& allocation);
  Result<void> RemoveInbox(const InboxRecord& record);
  Result<void> RemoveInboxes(const std::string& allocation);

  // Mounts that callers hold as fds, in the order in which mountd handed them
  // out.
  Result<void> PutHandedOut(const HandedOutRecord& record);
  Result<std::vector<HandedOutRecord>> HandedOutOf(
      const std::string& allocation);
  Result<std::vector<HandedOutRecord>> HandedOutOfUser(std::uint32_t uid);
  Result<std::uint32_t> CountHandedOut(const std::string& allocation);
  Result<std::uint32_t> CountHandedOutOfUser(std::uint32_t uid);
  Result<void> ForgetHandedOut(const HandedOutRecord& record);

  // Marks an anchor as doubtful by the id 0: the anchor may be there or not,
  // and its id is unknown. A plan may have mounted it again and its answer was
  // lost.
  Result<void> DoubtAnchor(const AnchorKey& key);
  Result<void> PutAnchor(const AnchorKey& key, std::uint64_t anchor_id);
  Result<std::optional<std::uint64_t>> GetAnchor(const AnchorKey& key);
  Result<std::map<AnchorKey, std::uint64_t>> ListAnchors();
  Result<void> RemoveAnchor(const AnchorKey& key);

  // Writes the intent of a network. AlreadyExists if the allocation has a
  // network on that interface.
  Result<void> AddNetwork(const NetworkRecord& record);
  Result<std::vector<NetworkRecord>> NetworksOf(const std::string& allocation);
  Result<std::vector<NetworkRecord>> ListNetworks();
  // Returns the networks of one of these allocations or with one of these
  // addresses, as text.
  Result<std::vector<NetworkRecord>> NetworksWith(
      const std::vector<std::string>& allocations_and_addresses);
  // Updates the columns that creating or removing the network changes, not the
  // caller's request.
  Result<void> SetNetworkState(const NetworkRecord& record);
  Result<void> RemoveNetwork(const NetworkRecord& record);
  // Removes the record and quarantines its addresses, in one transaction.
  Result<void> QuarantineNetwork(const NetworkRecord& record);
  Result<std::vector<QuarantineRecord>> ListQuarantine();
  Result<void> EndQuarantine(const netns::Ipv4& address);

  // The database of this store (database.h).
  Database& database() { return *database_; }

 private:
  explicit BootStore(std::unique_ptr<Database> database)
      : database_(std::move(database)) {}

  template <typename T>
  Result<std::vector<HandedOutRecord>> SelectHandedOut(std::string_view where,
                                                       const T& argument);
  template <typename T>
  Result<std::uint32_t> Count(std::string_view sql, const T& argument);
  Result<std::vector<NetworkRecord>> SelectNetworks(
      std::string_view where, const std::string& argument);

  std::unique_ptr<Database> database_;
};

}  // namespace mountd::store
