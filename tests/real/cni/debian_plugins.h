// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/support/fakes/cni_world.h"

// The CNI project's own plugins in Debian's package
// containernetworking-plugins.
namespace mountd::cni {

inline constexpr char kPlugins[] = "/usr/lib/cni";

struct Shell {
  bool good = false;
  std::string out;
};

Shell Sh(const std::string& script);

// Return why the plugins cannot be used here, or why no such link can be made
// (ip-link(8)); "" if they can.
std::string WhyNoPlugins();
std::string WhyNoLink(const std::string& how);

Json HostLocal(const std::string& subnet, const std::string& subnet6 = "");

// Returns the plugins as Nomad writes them for its bridge networks.
std::vector<Json> NomadsPlugins(const Json& ipam);

using Lines = std::set<std::string>;
// Returns the addresses that host-local has given out.
Lines Leases();
// Returns all that a plugin leaves: links, rules, and addresses given out.
Lines WhatPluginsLeft();

}  // namespace mountd::cni
