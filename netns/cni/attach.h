// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "netns/cni/context.h"
#include "netns/cni/documents/json.h"
#include "netns/cni/documents/request.h"
#include "netns/cni/record.h"
#include "netns/cni/state_dir.h"

namespace mountd::cni {

// Runs ADD through the record's list until ADD succeeds, another attempt makes
// no sense, or the time is over. Undoes each failed attempt before the next one
// and after the last. At every moment the record on disk contains all that
// plugins may have made. Returns the document for stdout. The caller holds the
// attachment's lock.
Json Attach(const Context& context, const StateDir& state, Record record);

// Returns the document of an ADD for an attachment that exists already.
// AlreadyExists if it was made for another request or namespace.
Json AnswerKnown(const Record& known, const Request& request,
                 const std::string& netns, std::uint64_t netns_inode);

}  // namespace mountd::cni
