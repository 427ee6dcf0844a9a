// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/topology.h"

#include <algorithm>
#include <string_view>

#include "mountd/base/names.h"

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;

// CSI spec, Topology: at most 63 letters, digits, "-", "_" and ".",
// alphanumeric at both ends.
constexpr std::size_t kMaxValue = 63;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

bool IsTopologyValue(std::string_view text) {
  return !text.empty() && text.size() <= kMaxValue &&
         IsAlphanumeric(text.front()) && IsAlphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

pb::Topology TopologyOf(const std::string& node_id) {
  pb::Topology topology;
  (*topology.mutable_segments())[kTopologyKey] =
      IsTopologyValue(node_id)
          ? node_id
          : VolumeKey::Derive("csi-local node", node_id).str();
  return topology;
}

// Ignores segments of other plugins.
bool Matches(const pb::Topology& topology, const pb::Topology& here) {
  const auto found = topology.segments().find(kTopologyKey);
  return found == topology.segments().end() ||
         found->second == here.segments().at(kTopologyKey);
}

bool IsHere(const pb::TopologyRequirement& requirement,
            const pb::Topology& here) {
  const auto matches = [&here](const pb::Topology& topology) {
    return Matches(topology, here);
  };
  // "preferred" is only a wish. If there are "requisite" topologies, one of
  // them has to match.
  return requirement.requisite().empty() ||
         std::any_of(requirement.requisite().begin(),
                     requirement.requisite().end(), matches);
}

}  // namespace mountd::csi_local
