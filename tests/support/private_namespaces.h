// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// Each test in mount and network namespaces of its own, / private, an empty
// tmpfs on /run, lo up. Skipped, with the reason, without the right to unshare.
class PrivateNamespaces : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

 private:
  UniqueFd mounts_;  // the namespaces to go back to
  UniqueFd network_;
};

// Everything that could leak: mountinfo, links, addresses of lo, routes, rules
// of routing, neighbours, settings of the network (network_inventory.h), the
// nftables ruleset, all of /run's tree, this process's open fds. Two are equal
// if nothing did.
struct Inventory {
  static Inventory Take();
  std::set<std::string> items;
};

// Connections that the kernel tracks stay for a while after their packets, so
// they are none of a test's whose network is still there.
enum class Counted { kAll, kAllButConnections };

// Empty, or what `after` has more ("+") and less ("-").
std::string Difference(const Inventory& before, const Inventory& after,
                       Counted counted = Counted::kAll);

// Waits, in seconds at most, for links that die with their namespaces.
std::string DifferenceWithin(const Inventory& before, int seconds,
                             Counted counted = Counted::kAll);

// Runs `body` in a child that has entered the network namespace pinned at
// `path`; its result is the child's exit status.
int RunInNetns(const std::string& path, int (*body)());

}  // namespace mountd::testing
