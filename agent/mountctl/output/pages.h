// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <utility>

#include "mountd/base/result.h"

namespace mountd::agent {

// Calls `fetch` with the token of each page, "" for the first. `fetch` returns
// the next page's token, "" after the last. Internal if `fetch` returns its own
// token, because that would never end.
template <typename Fetch>
Result<void> EachPage(const Fetch& fetch) {
  std::string token;
  do {
    MOUNTD_ASSIGN(std::string next, fetch(token));
    if (!next.empty() && next == token) {
      return MakeError(Code::kInternal, "list", "page",
                       "the plugin returns the same page again");
    }
    token = std::move(next);
  } while (!token.empty());
  return Ok();
}

}  // namespace mountd::agent
