// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mountd {

// What mount(8) is told of a [filesystem.<name>], and nothing but it. Empty, or
// what is wrong with it: root's own words, but a slip in them must not run a
// program, hang or panic the host, or hand a file of it to somebody else.

// One of the types that are known, or "fuse.<subtype>".
std::string FaultOfType(const std::string& type);

// Of a known type: it has no server that could be gone.
bool IsOnDevice(const std::string& type);

// A path of the host for a type that lies on a device or in an image; for
// others a word that no helper can take for an option.
std::string FaultOfSource(const std::string& type, const std::string& source);

// "key" or "key=value", of the type's list (config_filesystem.cc). Files with
// credentials lie below /etc/mountd. suid, dev, exec and what names a program,
// another device, or a file descriptor is on no list.
std::string FaultOfOption(const std::string& type, const std::string& option);

}  // namespace mountd
