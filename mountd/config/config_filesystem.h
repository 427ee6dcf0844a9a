// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mountd {

// Checks of a [filesystem.<name>]. These values are all that mount(8) gets.
// Each function returns "" or what is wrong. Root writes the values, but a slip
// must not run a program, hang or panic the host, or give a file of the host's
// to somebody else.
//
// Checks for one of the known types, or "fuse.<subtype>".

// One of the types that are known, or "fuse.<subtype>".
std::string FaultOfType(const std::string& type);

// Returns whether the known type lies on a device or in an image, so that no
// server can be gone.
bool IsOnDevice(const std::string& type);

// Checks for a path of the host if the type lies on a device or in an image.
// For other types checks for a word that no helper can take for an option.
std::string FaultOfSource(const std::string& type, const std::string& source);

// Checks for a "key" or "key=value" of the type's list (config_filesystem.cc).
// Files with credentials lie below /etc/mountd. No list has suid, dev, exec, or
// an option that names a program, another device or a file descriptor.
std::string FaultOfOption(const std::string& type, const std::string& option);

// Returns whether the option, which has no fault, is a word alone, or has a
// number or a word of a closed list as its value. Such an option names no
// account, host or path, so users may see it.
bool IsShownOption(const std::string& type, const std::string& option);

}  // namespace mountd
