// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

namespace mountd::cni_plugin {

// True if anything but mountd keeps a network namespace, as far as this user
// may read /proc (proc(5)): a process in it, an open file of it, or a mount of
// it in the mount namespace of any process. `pin` (ip-netns(8)) is the path of
// mountd's own mount of the namespace, which does not count in any mount
// namespace.
//
// /proc hides the namespace and the open files of another user's process from a
// user without privilege. So ask mountd about processes first.
bool IsHeld(std::uint64_t netns_inode, const std::string& pin);

}  // namespace mountd::cni_plugin
