// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <string>

// Each node is a topology of its own, because a volume stays where it was made.
namespace mountd::csi_local {

inline constexpr char kTopologyKey[] = "csi-local.mountd.org/node";

// The value of kTopologyKey is the node's id, or a hash of the id if the id is
// no topology value (1 to 63 letters, digits, '-', '_', '.', with letters or
// digits at both ends).
::csi::v1::Topology TopologyOf(const std::string& node_id);

// True if an object that is only on this node meets the requirement.
bool IsHere(const ::csi::v1::TopologyRequirement& requirement,
            const ::csi::v1::Topology& here);
bool Matches(const ::csi::v1::Topology& topology,
             const ::csi::v1::Topology& here);

}  // namespace mountd::csi_local
