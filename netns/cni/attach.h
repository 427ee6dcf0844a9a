// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "netns/cni/context.h"
#include "netns/cni/json.h"
#include "netns/cni/record.h"
#include "netns/cni/request.h"
#include "netns/cni/state_dir.h"

namespace mountd::cni {

// Runs ADD through the record's list until it succeeds, it makes no sense to
// try again, or the time is over; what an attempt did is undone before the next
// and after the last. The record tells at any moment what may be there. Answers
// the document for stdout. The caller has the attachment's lock.
Json Attach(const Context& context, const StateDir& state, Record record);

// What an ADD answers that finds its own result; AlreadyExists where that was
// made for another request or namespace.
Json AnswerKnown(const Record& known, const Request& request,
                 const std::string& netns, std::uint64_t netns_inode);

}  // namespace mountd::cni
