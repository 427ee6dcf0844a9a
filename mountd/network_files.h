// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/records.h"

// The files by which a task learns its name and whom to ask for others':
// hosts(5), resolv.conf(5), hostname(5). Pure text; an executor writes it.
namespace mountd {

// InvalidArgument for what is no host name, address or option: nothing of it
// can end a line or a word. ResourceExhausted for what no resolver would read.
Result<void> CheckNetworkFiles(const NetworkFiles& files);

struct NetworkFile {
  exec::NetworkFileKind kind = exec::NetworkFileKind::kHosts;
  std::string name;       // "hosts"
  std::string task_path;  // "/etc/hosts"
  std::string text;
};
// Those that are asked for; none for an empty one. An address that is none is
// left out.
std::vector<NetworkFile> TextsOf(const NetworkFiles& files,
                                 const netns::Ipv4& ipv4,
                                 const netns::Ipv6& ipv6);

}  // namespace mountd
