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

// /run/mountd/state/boot.db: mounts, networks, host ports, quarantined
// addresses. On a tmpfs, gone with the boot that made them; synchronous=OFF,
// which survives a kill of mountd.
//
// Thread-safe. Absence is a value (nullopt), not an error.
class BootStore {
 public:
  static Result<std::unique_ptr<BootStore>> Open(const std::string& path);

  // Forgets what another boot has left, where /run outlived that: its mounts
  // and namespaces are gone, and their ids are others' by now. Called once,
  // before anything else.
  Result<void> AdoptBoot(const std::string& boot_id);

  // What `body` writes here is there as a whole or not at all, and costs one
  // commit.
  Result<void> Together(const std::function<Result<void>()>& body) {
    return database_->Transaction(body);
  }

  // Adds or replaces.
  Result<void> PutMount(const MountRecord& record);
  // Of one that is recorded: its state, and what the kernel says of it (ids and
  // groups). Fewer pages than PutMount; SetMountState is one.
  Result<void> UpdateMount(const MountRecord& record);
  Result<void> SetMountState(const MountRecord& record, MountRecordState state);
  Result<std::optional<MountRecord>> GetMount(const std::string& allocation,
                                              const std::string& task,
                                              const std::string& name);
  Result<std::optional<MountRecord>> FindMount(std::uint64_t mount_id);
  Result<std::vector<MountRecord>> ListMounts();
  Result<std::vector<MountRecord>> MountsOf(const std::string& allocation);
  // Counts look at each one.
  Result<std::uint32_t> CountMounts(const std::string& allocation);
  // Of all its tmpfs mounts together.
  Result<std::uint64_t> TmpfsBytesOf(const std::string& allocation);
  Result<std::uint32_t> CountMountsOfUser(std::uint32_t uid);
  Result<bool> HasMountsOf(const AnchorKey& key);
  // Whether there was one.
  Result<bool> RemoveMount(const MountRecord& record);

  Result<void> PutInbox(const InboxRecord& record);
  Result<std::vector<std::string>> InboxesOf(const std::string& allocation);
  Result<void> RemoveInbox(const InboxRecord& record);
  Result<void> RemoveInboxes(const std::string& allocation);

  // What was handed out, in the order in which it was.
  Result<void> PutHandedOut(const HandedOutRecord& record);
  Result<std::vector<HandedOutRecord>> HandedOutOf(
      const std::string& allocation);
  Result<std::vector<HandedOutRecord>> HandedOutOfUser(std::uint32_t uid);
  Result<std::uint32_t> CountHandedOut(const std::string& allocation);
  Result<std::uint32_t> CountHandedOutOfUser(std::uint32_t uid);
  Result<void> ForgetHandedOut(const HandedOutRecord& record);

  // An anchor. One with the id 0 may be there or not, and its id is not known
  // any more: a plan may have mounted it anew, and its answer was lost.
  Result<void> DoubtAnchor(const AnchorKey& key);
  Result<void> PutAnchor(const AnchorKey& key, std::uint64_t anchor_id);
  Result<std::optional<std::uint64_t>> GetAnchor(const AnchorKey& key);
  Result<std::map<AnchorKey, std::uint64_t>> ListAnchors();
  Result<void> RemoveAnchor(const AnchorKey& key);

  // The intent of a network. AlreadyExists if the allocation has one of the
  // interface.
  Result<void> AddNetwork(const NetworkRecord& record);
  Result<std::vector<NetworkRecord>> NetworksOf(const std::string& allocation);
  Result<std::vector<NetworkRecord>> ListNetworks();
  // Those of one of these allocations, or with one of these addresses, as text.
  Result<std::vector<NetworkRecord>> NetworksWith(
      const std::vector<std::string>& allocations_and_addresses);
  // What its making and its end change: all but what was asked for.
  Result<void> SetNetworkState(const NetworkRecord& record);
  Result<void> RemoveNetwork(const NetworkRecord& record);
  // The record goes, its addresses are quarantined.
  Result<void> QuarantineNetwork(const NetworkRecord& record);
  Result<std::vector<QuarantineRecord>> ListQuarantine();
  Result<void> EndQuarantine(const netns::Ipv4& address);

  // Of its file (database.h).
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
