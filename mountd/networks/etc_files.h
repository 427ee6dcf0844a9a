// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/plan/network_plans.h"
#include "mountd/store/records.h"

// The files by which a task learns its name and its name servers: hosts(5),
// resolv.conf(5), hostname(5). Pure text; an executor writes the files.
namespace mountd {

// Checks names, addresses and options, so that none contains the end of a line
// or word. InvalidArgument if one is malformed; ResourceExhausted if there are
// more than a resolver would read.
Result<void> CheckNetworkFiles(const NetworkFiles& files);

struct NetworkFile {
  exec::NetworkFileKind kind = exec::NetworkFileKind::kHosts;
  std::string name;       // "hosts"
  std::string task_path;  // "/etc/hosts"
  std::string text;
};
// Returns the files for these settings; none if the settings are empty. Writes
// no line for an address that is absent.
std::vector<NetworkFile> TextsOf(const NetworkFiles& files,
                                 const netns::Ipv4& ipv4,
                                 const netns::Ipv6& ipv6);

}  // namespace mountd
