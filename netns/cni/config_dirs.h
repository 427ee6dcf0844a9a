// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/network_list.h"

namespace mountd::cni {

// A file or directory that cannot be used. The others stay usable.
struct Unusable {
  std::string path;
  // Set if the file could be read that far.
  std::string network;
  Error reason;
};

struct FoundNetwork {
  std::string path;
  NetworkList list;
};

struct Networks {
  std::vector<FoundNetwork> usable;
  std::vector<Unusable> unusable;
};

// Loads all networks of the directories: *.conf, *.conflist and *.json, sorted
// by name (as Nomad does), one directory after the other. If two have the same
// name, the first counts. Unless a list says loadOnlyInlinedPlugins, the
// plugins of <directory>/<network>/*.conf follow its own.
//
// A missing directory counts as empty. A directory or file that others than
// root can write is unusable.
Networks LoadNetworks(const std::vector<std::string>& directories);

// Returns the network. NotFound if there is none. If a file of that network is
// unusable, returns the file's error.
Result<NetworkList> FindNetwork(const std::vector<std::string>& directories,
                                const std::string& name);

}  // namespace mountd::cni
