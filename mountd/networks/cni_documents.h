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
// bounds and checks that text, and these functions check it again.
namespace mountd {

// Returns the request for ADD of the network.
std::string CniRequestOf(const NetworkRecord& record);

// Returns the request for CHECK and DEL. This request holds only names, because
// mountd-cni-run has recorded ADD's request. So the runner has nothing in it to
// refuse.
std::string CniAttachmentOf(const NetworkRecord& record);

// Returns the request for STATUS of a network.
std::string CniStatusRequest(const std::string& network);

// Returns the request for GC, which removes all attachments except those of
// `valid`.
std::string CniGcRequest(const std::vector<NetworkRecord>& valid);
// Returns the request for a GC that removes only attachments of earlier boots.
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
  std::map<std::string, std::string> plugins;  // name to release; "": unknown
};
// Reads the answer to LIST.
Result<CniListing> ReadCniListing(std::string_view text);

}  // namespace mountd
