// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mountd {

// Checks of a [filesystem.<name>]. mount(8) gets these values and nothing else.
// Each function returns "" or what is wrong. Root writes the values.
// Nevertheless a mistake must not run a program, hang or panic the host, or
// give a file of the host to anybody.

// Checks for one of the known types, or for "fuse.<subtype>".
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

// Returns whether users may see the option, which has no fault. True for an
// option without a value, with a number, or with a word of a closed list,
// because such an option names no account, host or path.
bool IsShownOption(const std::string& type, const std::string& option);

}  // namespace mountd
