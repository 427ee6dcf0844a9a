// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/records.h"

// What mountd-cni-run is asked and what it answers, as JSON
// (netns/cni/options.h says which). Answers hold what third parties' plugins
// said: bounded and checked there, and again here.
namespace mountd {

// For ADD of the network.
std::string CniRequestOf(const NetworkRecord& record);

// For CHECK and DEL: what was asked of ADD is known there. Nothing in it can be
// refused that the plan was not.
std::string CniAttachmentOf(const NetworkRecord& record);

// For STATUS of a network.
std::string CniStatusRequest(const std::string& network);

// For GC of all networks: these are to stay.
std::string CniGcRequest(const std::vector<NetworkRecord>& valid);
// For GC of what was attached in an earlier boot alone.
std::string CniEarlierBootsRequest();

// Of any verb: the error that the answer is, which names the plugin to blame;
// Internal for what is no answer.
Result<void> ReadCniOutcome(std::string_view text);

struct CniAttachment {
  CniResult result;
  bool default_route = false;
};
// Of ADD. FailedPrecondition if the result has no address, or what no file of
// a task's can hold.
Result<CniAttachment> ReadCniAttachment(std::string_view text,
                                        const std::string& interface);

// What networks and plugins there are, by name.
struct CniListing {
  struct Network {
    std::string unusable;     // why; "": it is not
    bool has_status = false;  // its plugins can be asked (CNI 1.1)
  };
  std::map<std::string, Network> networks;
  std::map<std::string, std::string> plugins;  // their releases; "": unknown
};
// Of LIST.
Result<CniListing> ReadCniListing(std::string_view text);

}  // namespace mountd
