// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/network_list.h"

namespace mountd::cni {

// A file, or a whole directory, that cannot be used: it makes nothing but
// itself unusable.
struct Unusable {
  std::string path;
  // Where the file could be read so far.
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

// All networks of the directories: *.conf, *.conflist and *.json, sorted by
// their names (as Nomad does), one directory after the other. Of two with the
// same name the first counts. A list that does not say loadOnlyInlinedPlugins
// has the plugins of <directory>/<network>/*.conf behind its own.
//
// A directory that is missing is none; one that others than root can write is
// unusable, and so is each such file.
Networks LoadNetworks(const std::vector<std::string>& directories);

// NotFound, with the reason where a file of that network is unusable.
Result<NetworkList> FindNetwork(const std::vector<std::string>& directories,
                                const std::string& name);

}  // namespace mountd::cni
