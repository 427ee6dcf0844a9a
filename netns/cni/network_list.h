// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/documents/json.h"

namespace mountd::cni {

// A network configuration list (CNI 1.1, section 1), or a single plugin's
// configuration as a list of one.
struct NetworkList {
  std::string name;
  // The configuration's versions that mountd speaks, ascending, at least one:
  // "0.4.0", "1.0.0", "1.1.0".
  std::vector<std::string> versions;
  bool disable_check = false;
  bool disable_gc = false;
  bool only_inlined_plugins = false;
  // In the order of ADD. Each has a valid "type".
  std::vector<Json> plugins;

  // Returns the version to use if nothing else is known about the plugins: "the
  // highest supported version" (section 3).
  const std::string& Version() const { return versions.back(); }
};

// Parses a list. InvalidArgument if the configuration is wrong; the error says
// what. NotSupported if it has none of mountd's versions. `file` is the name
// for the error.
Result<NetworkList> ParseNetworkList(std::string_view text,
                                     const std::string& file);

// Parses one more plugin of a list, from a file of its own.
Result<Json> ParsePluginConfig(std::string_view text, const std::string& file);

// Convert the list to its form in a record, and back.
Json ToJson(const NetworkList& list);
Result<NetworkList> FromJson(const Json& list, const std::string& origin);

std::string TypeOf(const Json& plugin);
// Returns the IPAM plugin that the plugin itself starts; "" if there is none.
std::string IpamTypeOf(const Json& plugin);

// Returns whether this version of the specification has STATUS and GC.
bool HasStatusAndGc(std::string_view version);

}  // namespace mountd::cni
