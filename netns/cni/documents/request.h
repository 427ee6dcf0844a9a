// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/documents/json.h"

namespace mountd::cni {

// The specification's attachment without the network's name, because no two
// networks give a namespace the same interface.
struct Attachment {
  std::string container_id;
  std::string ifname;

  // Returns a text such as "web/eth0".
  std::string ToText() const { return container_id + "/" + ifname; }
  friend bool operator==(const Attachment&, const Attachment&) = default;
  friend bool operator<(const Attachment& a, const Attachment& b) {
    return std::tie(a.container_id, a.ifname) <
           std::tie(b.container_id, b.ifname);
  }
};

// The JSON document on stdin. Its writer is not trusted: ParseRequest checks
// all of it, and no part of it reaches a plugin in its original form.
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
//   earlier_boots GC: only what an earlier boot attached; ignores `valid`
//   traceparent   W3C Trace Context: TRACEPARENT of the plugins' environment
struct Request {
  std::string network;
  Attachment attachment;
  // A text such as "IgnoreUnknown=1;K=V".
  std::string args;
  // Members by capability (CNI's CONVENTIONS.md): portMappings, dns, bandwidth,
  // ips, mac. Only those that the request asks for.
  Json capabilities = Json::object();
  std::vector<Attachment> valid;
  bool earlier_boots = false;
  std::string traceparent;  // as ToText(TraceParent) writes it; "": none
};

// Parses a request. InvalidArgument if it is wrong; the error names the member.
Result<Request> ParseRequest(std::string_view text);

// InvalidArgument unless the request names the attachment that ADD, CHECK and
// DEL need.
Result<void> CheckAttachment(const Request& request);

}  // namespace mountd::cni
