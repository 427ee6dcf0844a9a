// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/support/cni_world.h"

// The CNI project's own plugins, as Debian's containernetworking-plugins has
// them.
namespace mountd::cni {

inline constexpr char kPlugins[] = "/usr/lib/cni";

struct Shell {
  bool good = false;
  std::string out;
};

Shell Sh(const std::string& script);

// Why they cannot be used here, or a link be made as ip-link(8) says; "".
std::string WhyNoPlugins();
std::string WhyNoLink(const std::string& how);

Json HostLocal(const std::string& subnet, const std::string& subnet6 = "");

// As Nomad writes it for its bridge networks.
std::vector<Json> NomadsPlugins(const Json& ipam);

using Lines = std::set<std::string>;
// The addresses that host-local has given out.
Lines Leases();
// Links, rules, and addresses that are given out: all that a plugin leaves.
Lines WhatPluginsLeft();

}  // namespace mountd::cni
