// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace mountd {

// Formats each message of mountd's as its level, such as "warning: ", and the
// message on one line (base/one_line.h). So any message is one entry of the
// journal and begins with its level.
std::unique_ptr<spdlog::formatter> LogFormatter();

// Sends the log to stderr, which systemd passes to the journal. Called once,
// before mountd logs anything.
void LogToStderr();

}  // namespace mountd
