// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <string>

// A volume is where it was made: each node is a place of its own.
namespace mountd::csi_local {

inline constexpr char kTopologyKey[] = "csi-local.mountd.org/node";

// Its value is the node's id, or a hash of it where that is no topology value
// (1 to 63 letters, digits, '-', '_', '.', letters or digits at both ends).
::csi::v1::Topology TopologyOf(const std::string& node_id);

// Whether something that is here alone is what was asked for.
bool IsHere(const ::csi::v1::TopologyRequirement& requirement,
            const ::csi::v1::Topology& here);
bool Matches(const ::csi::v1::Topology& topology,
             const ::csi::v1::Topology& here);

}  // namespace mountd::csi_local
