// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "netns/cni/limits.h"

// Words that cross into plugins' environments, file names and error texts.
namespace mountd::cni {

// [A-Za-z0-9][A-Za-z0-9_.-]*, at most 128 bytes: what the specification allows
// for a container id and for a network's name (CNI 1.1, sections 1 and 2), and
// no path whatever it is put together with.
bool IsContainerId(std::string_view text);
bool IsNetworkName(std::string_view text);

// [A-Za-z0-9_.-], 1 to 15 bytes, neither "." nor "..": less than the kernel
// takes (dev_valid_name).
bool IsInterfaceName(std::string_view text);

// [A-Za-z0-9_.-], 1 to 64 bytes, neither "." nor "..": a plugin's file name.
bool IsPluginType(std::string_view text);

// CNI_ARGS is "K=V;K=V" and has no escapes: keys of [A-Za-z0-9_.-], values of
// UTF-8 without ';', '=' and control characters.
bool IsArgumentKey(std::string_view text);
bool IsArgumentValue(std::string_view text);

// UTF-8 without control characters.
bool IsPlainText(std::string_view text);

// "02:4d:0a:00:00:01"
bool IsMac(std::string_view text);

// For an error: control characters and what is no ASCII become spaces and '?',
// runs of spaces one; at most `max_bytes`.
std::string Scrubbed(std::string_view text,
                     std::size_t max_bytes = kMaxDetailBytes);

}  // namespace mountd::cni
