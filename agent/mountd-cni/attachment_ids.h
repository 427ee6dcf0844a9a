// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

// Names attachments in mountd. All interfaces of a container are networks of
// one allocation, because they are in one namespace. The allocation's scope is
// the name of the network configuration that the allocation was made for.
namespace mountd::cni_plugin {

// Returns "cni-ID", or "cni-.HASH" if that would be too long. No container id
// begins with a '.', so two containers never get the same name. `container_id`
// must be valid (cni::IsContainerId).
std::string AllocationOf(std::string_view container_id);

// Returns "cni-ID[eth1]", the marker of an interface whose network
// configuration is not the allocation's own. A marker is an allocation without
// a network; its scope is the configuration's name. GC needs the configuration,
// and mountd keeps no text of ours beside a network.
std::string MarkerOf(std::string_view allocation, std::string_view ifname);

// The parts of an allocation's id. ParseAllocationId returns nothing for an id
// that this plugin did not make.
struct AllocationId {
  std::string allocation;
  std::string ifname;  // the interface of a marker; "": no marker
};
std::optional<AllocationId> ParseAllocationId(std::string_view id);

}  // namespace mountd::cni_plugin
