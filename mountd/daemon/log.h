// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace mountd {

// How each message of mountd's is written: "warning: ", then the message on one
// line (base/one_line.h). Whatever is in a message, it is one entry of the
// journal, and begins with its level.
std::unique_ptr<spdlog::formatter> LogFormatter();

// To stderr, which systemd gives to the journal. Called once, before anything
// is logged.
void LogToStderr();

}  // namespace mountd
