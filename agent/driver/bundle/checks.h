// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "mountd/base/result.h"

// Checks of texts that become part of a config.json. `what` names the member in
// the error, as a person knows it: "argument", "cwd".
namespace mountd::driver {

// InvalidArgument for a text that JSON or the kernel cannot hold: one that is
// not UTF-8, has a NUL, or is longer than 128 KiB (MAX_ARG_STRLEN, execve(2)).
Result<void> CheckText(const std::string& what, std::string_view text);

// InvalidArgument unless the path is absolute, shorter than PATH_MAX, and has
// no empty, "." or ".." component.
Result<void> CheckPath(const std::string& what, std::string_view path);

// As CheckPath. InvalidArgument also for "/", /proc, /sys and /dev, and for all
// beneath the last three, because a mount there would hide files with which the
// kernel or the runtime protects the host.
Result<void> CheckDestination(const std::string& what, std::string_view path);

// True if the path is `parent` or beneath `parent`.
bool IsAtOrBeneath(std::string_view path, std::string_view parent);

}  // namespace mountd::driver
