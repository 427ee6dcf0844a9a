// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/json.h"

namespace mountd::cni {

// One network configuration list (CNI 1.1, section 1), or a single plugin's
// configuration as a list of one.
struct NetworkList {
  std::string name;
  // Those of the configuration's versions that we speak, ascending; one at
  // least: "0.4.0", "1.0.0", "1.1.0".
  std::vector<std::string> versions;
  bool disable_check = false;
  bool disable_gc = false;
  bool only_inlined_plugins = false;
  // In the order of ADD; each has a valid "type".
  std::vector<Json> plugins;

  // The one that is spoken with plugins where nothing else is known of them:
  // "the highest supported version" (section 3).
  const std::string& Version() const { return versions.back(); }
};

// InvalidArgument with what is wrong with the configuration; NotSupported if it
// is of none of our versions. `file` is how it is called in the error.
Result<NetworkList> ParseNetworkList(std::string_view text,
                                     const std::string& file);

// One more plugin for a list, of a file of its own.
Result<Json> ParsePluginConfig(std::string_view text, const std::string& file);

// As it is kept in a record, and back.
Json ToJson(const NetworkList& list);
Result<NetworkList> FromJson(const Json& list, const std::string& origin);

std::string TypeOf(const Json& plugin);
// The IPAM plugin that a plugin starts itself; "" for none.
std::string IpamTypeOf(const Json& plugin);

// Whether a version of the specification has STATUS and GC.
bool HasStatusAndGc(std::string_view version);

}  // namespace mountd::cni
