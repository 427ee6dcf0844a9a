// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

// How attachments are called in mountd. All interfaces of a container are
// networks of one allocation, as they are in one namespace. The allocation's
// scope is the name of the network configuration that it was made for.
namespace mountd::cni_plugin {

// "cni-ID", or "cni-.HASH" where that would be too long: no container id begins
// with a '.', so two containers never have the same. `container_id` is one
// (cni::IsContainerId).
std::string AllocationOf(std::string_view container_id);

// "cni-ID[eth1]": an allocation without a network, whose scope says which
// configuration eth1 is of where that is not the allocation's own. mountd
// keeps no word of ours beside a network, and GC has to know.
std::string MarkerOf(std::string_view allocation, std::string_view ifname);

// What an allocation's id says; nothing of one that is not of this plugin's
// making.
struct AllocationId {
  std::string allocation;
  std::string ifname;  // of a marker; "": the allocation itself
};
std::optional<AllocationId> ParseAllocationId(std::string_view id);

}  // namespace mountd::cni_plugin
