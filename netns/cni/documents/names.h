// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "netns/cni/documents/limits.h"

// Checks words that go into plugins' environments, file names and error texts.
namespace mountd::cni {

// [A-Za-z0-9][A-Za-z0-9_.-]*, at most 128 bytes: the specification's words for
// a container id and for a network's name (CNI 1.1, sections 1 and 2). Such a
// word is never a path, whatever it is joined with.
bool IsContainerId(std::string_view text);
bool IsNetworkName(std::string_view text);

// [A-Za-z0-9_.-], 1 to 15 bytes, neither "." nor "..", which is narrower than
// the kernel's own check (dev_valid_name).
bool IsInterfaceName(std::string_view text);

// [A-Za-z0-9_.-], 1 to 64 bytes, neither "." nor "..": a plugin's file name.
bool IsPluginType(std::string_view text);

// CNI_ARGS is "K=V;K=V" without escapes: keys of [A-Za-z0-9_.-], values of
// UTF-8 without ';', '=' and control characters.
bool IsArgumentKey(std::string_view text);
bool IsArgumentValue(std::string_view text);

// UTF-8 without control characters.
bool IsPlainText(std::string_view text);

// Accepts a text such as "02:4d:0a:00:00:01".
bool IsMac(std::string_view text);

// Cleans a text for an error: turns control characters into spaces, bytes that
// are not ASCII into '?', and several spaces into one. Cuts after `max_bytes`.
std::string Scrubbed(std::string_view text,
                     std::size_t max_bytes = kMaxDetailBytes);

}  // namespace mountd::cni
