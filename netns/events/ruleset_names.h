// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace mountd::netns {

// mountd's nftables table, of family inet. Except for the two rules of
// forward_rules.h, mountd changes nothing outside it.
inline constexpr char kTable[] = "mountd";
// The chain in it that belongs to the operators.
inline constexpr char kAdminChain[] = "admin";
// iptables' own table and chain, in each family (forward_rules.h).
inline constexpr char kFilterTable[] = "filter";
inline constexpr char kForwardChain[] = "FORWARD";

}  // namespace mountd::netns
