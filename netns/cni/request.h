// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/json.h"

namespace mountd::cni {

// What the specification calls an attachment, without the network's name: no
// two networks give a namespace the same interface.
struct Attachment {
  std::string container_id;
  std::string ifname;

  // "web/eth0"
  std::string ToText() const { return container_id + "/" + ifname; }
  friend bool operator==(const Attachment&, const Attachment&) = default;
  friend bool operator<(const Attachment& a, const Attachment& b) {
    return std::tie(a.container_id, a.ifname) <
           std::tie(b.container_id, b.ifname);
  }
};

// The one JSON document on stdin. Whoever wrote it is not believed: all of it
// is checked here, and none of it reaches a plugin in the form it came in.
//
//   network       the network's name; GC: empty means all
//   container_id, ifname
//   args          {"K": "V"}: CNI_ARGS
//   port_mappings [{hostPort, containerPort, protocol, hostIP}]
//   dns           {servers, searches, options}
//   bandwidth     {ingressRate, ingressBurst, egressRate, egressBurst}, bits
//   ips           ["10.0.0.5/24"]
//   mac           "02:..."
//   valid         GC: [{container_id, ifname}]
//   earlier_boots GC: only what was attached in one; `valid` counts for nothing
struct Request {
  std::string network;
  Attachment attachment;
  // "IgnoreUnknown=1;K=V"
  std::string args;
  // By the names of the capabilities (CNI's CONVENTIONS.md): portMappings, dns,
  // bandwidth, ips, mac. Only those that were asked for.
  Json capabilities = Json::object();
  std::vector<Attachment> valid;
  bool earlier_boots = false;
};

// InvalidArgument, which names the member.
Result<Request> ParseRequest(std::string_view text);

// Whether the request names what ADD, CHECK and DEL are about.
Result<void> CheckAttachment(const Request& request);

}  // namespace mountd::cni
