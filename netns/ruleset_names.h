// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace mountd::netns {

// The own nftables table, family inet: nothing outside it is touched.
inline constexpr char kTable[] = "mountd";
// The chain in it that is the operators'.
inline constexpr char kAdminChain[] = "admin";
// iptables' own, of each family (forward_rules.h).
inline constexpr char kFilterTable[] = "filter";
inline constexpr char kForwardChain[] = "FORWARD";

}  // namespace mountd::netns
