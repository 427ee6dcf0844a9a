// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/store/records.h"

// Requests to mountd-cni-run and its answers, as JSON (netns/cni/options.h
// describes them). Answers hold text of third parties' plugins. mountd-cni-run
// bounds and checks it, and these functions check it again.
namespace mountd {

// Returns the request for ADD of the network.
std::string CniRequestOf(const NetworkRecord& record);

// Returns the request for CHECK and DEL. mountd-cni-run has recorded ADD's
// request. This one holds only names, so it cannot be refused if the plan was
// accepted.
std::string CniAttachmentOf(const NetworkRecord& record);

// Returns the request for STATUS of a network.
std::string CniStatusRequest(const std::string& network);

// Returns the request for GC of all networks. GC keeps `valid`.
std::string CniGcRequest(const std::vector<NetworkRecord>& valid);
// Returns the request for GC of attachments of earlier boots only.
std::string CniEarlierBootsRequest();

// Returns the error in the answer to any verb; it names the plugin that failed.
// Internal if the text is no answer.
Result<void> ReadCniOutcome(std::string_view text);

struct CniAttachment {
  CniResult result;
  bool default_route = false;
};
// Reads the answer to ADD. FailedPrecondition if the result has no address, or
// has text that no file of a task can hold.
Result<CniAttachment> ReadCniAttachment(std::string_view text,
                                        const std::string& interface);

// The networks and plugins that exist, by name.
struct CniListing {
  struct Network {
    std::string unusable;     // the reason; "": usable
    bool has_status = false;  // its plugins have STATUS (CNI 1.1)
  };
  std::map<std::string, Network> networks;
  std::map<std::string, std::string> plugins;  // their releases; "": unknown
};
// Reads the answer to LIST.
Result<CniListing> ReadCniListing(std::string_view text);

}  // namespace mountd
