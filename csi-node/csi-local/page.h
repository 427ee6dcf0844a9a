// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::csi_local {

// A part of a list that is ordered by id. A token names the last entry of the
// page before, and that entry may be gone now. So no entry is shown twice, and
// an entry that is there all the time is shown.
template <typename Record>
struct Page {
  std::vector<Record> entries;
  std::string next_token;  // empty: this is the last page
};

inline constexpr char kTokenMark = '>';

// Aborted if the token is none of ours (CSI, "Invalid starting_token").
template <typename Record>
Result<Page<Record>> PageOf(std::vector<Record> records, int max_entries,
                            const std::string& token) {
  if (max_entries < 0) {
    return MakeError(Code::kInvalidArgument, "max_entries", "",
                     "must not be negative");
  }
  if (!token.empty() && token[0] != kTokenMark) {
    return MakeError(Code::kAborted, "starting_token", "",
                     "is unknown; list again from the start");
  }
  const std::string after = token.empty() ? "" : token.substr(1);
  Page<Record> page;
  for (Record& record : records) {
    if (record.id() <= after) {
      continue;
    }
    if (max_entries != 0 &&
        page.entries.size() == static_cast<std::size_t>(max_entries)) {
      page.next_token = kTokenMark + page.entries.back().id();
      break;
    }
    page.entries.push_back(std::move(record));
  }
  return page;
}

}  // namespace mountd::csi_local
