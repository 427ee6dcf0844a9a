// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// Runs each test in mount and network namespaces of its own, with / private, an
// empty tmpfs on /run, and lo up. Skips the test, with the reason, without the
// right to unshare.
class PrivateNamespaces : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

 private:
  UniqueFd mounts_;  // the namespaces to return to
  UniqueFd network_;
};

// Everything that could leak: mountinfo, links, addresses of lo, routes,
// routing rules, neighbours, network settings (network_inventory.h), the
// nftables ruleset, the whole tree of /run, this process's open fds. Two
// inventories are equal if nothing leaked.
struct Inventory {
  static Inventory Take();
  std::set<std::string> items;
};

// Says whether connections count. The kernel tracks a connection for a while
// after its last packet, so a test whose network is still there leaves them
// out.
enum class Counted { kAll, kAllButConnections };

// Returns what `after` has more ("+") and less ("-"), or "".
std::string Difference(const Inventory& before, const Inventory& after,
                       Counted counted = Counted::kAll);

// Waits at most `seconds` for links that end with their namespaces.
std::string DifferenceWithin(const Inventory& before, int seconds,
                             Counted counted = Counted::kAll);

// Runs `body` in a child that has entered the network namespace pinned at
// `path`. Returns the child's exit status, which is `body`'s result.
int RunInNetns(const std::string& path, int (*body)());

}  // namespace mountd::testing
