// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/database.h"
#include "mountd/store/records.h"

namespace mountd::store {

// Queries networks, and addresses in quarantine. Thread-safe. Never loses an
// address of a network that may still use it.
class NetworkTable {
 public:
  explicit NetworkTable(Database& database) : database_(&database) {}

  // Writes the intent of a network. AlreadyExists if the allocation has a
  // network on that interface.
  Result<void> AddNetwork(const NetworkRecord& record);
  Result<std::vector<NetworkRecord>> NetworksOf(const std::string& allocation);
  Result<std::vector<NetworkRecord>> ListNetworks();
  // Returns the networks of one of these allocations or with one of these
  // addresses, as text. With `ipv6_alone` also returns all networks that have
  // only an IPv6 address.
  Result<std::vector<NetworkRecord>> NetworksWith(
      const std::vector<std::string>& allocations_and_addresses,
      bool ipv6_alone = false);
  // Updates the columns that change when the network is made or removed. Does
  // not change the caller's request.
  Result<void> SetNetworkState(const NetworkRecord& record);
  Result<void> SetNetworkPorts(const NetworkRecord& record);
  Result<void> RemoveNetwork(const NetworkRecord& record);
  // Removes the record and quarantines its addresses, in one transaction.
  Result<void> QuarantineNetwork(const NetworkRecord& record);
  Result<std::vector<QuarantineRecord>> ListQuarantine();
  Result<void> EndQuarantine(const QuarantineRecord& record);

 private:
  Result<std::vector<NetworkRecord>> SelectNetworks(
      std::string_view where, const std::string& argument);

  Database* const database_;
};

}  // namespace mountd::store
