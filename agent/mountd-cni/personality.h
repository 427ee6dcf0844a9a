// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/failure.h"
#include "netns/cni/documents/json.h"

namespace mountd::cni_plugin {

// The plugin that mountd-cni is in one call. The program is installed once,
// with a link for each of these names. The names but "mountd" are those of the
// chain that Nomad itself writes for `network { mode = "bridge" }`, so that
// Nomad runs mountd-cni in place of the CNI project's plugins.
enum class Personality {
  kMountd,    // an interface of mountd's, with its ports
  kBridge,    // as kMountd; the keys are those of the project's bridge
  kPortmap,   // the ports of the interface that a plugin before it has made
  kFirewall,  // passes the result on, because mountd allows the traffic itself
  kLoopback,  // passes the result on, because mountd brings "lo" up itself
  kHostLocal  // gives no address, because mountd chooses addresses itself
};

// Returns the plugin's name, such as "host-local".
const char* NameOf(Personality personality);

// Returns nothing for a name that no plugin here has.
std::optional<Personality> FindPersonality(std::string_view name);

// Returns the personality that the program's name says or, if that name is
// another, such as the installed program's, the document's "type". kMountd if
// neither says one. kInvalidConfig if the two disagree, because a runtime
// starts a plugin by its type. An IPAM plugin gets the document of the plugin
// that starts it, so the type says nothing to kHostLocal.
Outcome<Personality> PersonalityOf(const Environment& environment,
                                   const cni::Json& document);

// Returns the text for a person, or a fingerprint, that runs the program
// without CNI_COMMAND. `version` is mountd's own. A personality in place of a
// plugin of the CNI project gives the project's first version with all verbs,
// because Nomad asks for at least 0.4.0 of each, and for 1.3.0 of "bridge"
// before it calls CHECK.
std::string AboutText(Personality personality, const std::string& version);

}  // namespace mountd::cni_plugin
