// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

namespace mountd::cni_plugin {

// Whether anything but mountd keeps a network namespace, as far as this user
// may look into /proc (proc(5)): a process in it, an open file of it, or a
// mount of it in the mount namespace of any process. mountd's own pin of it is
// mounted at `pin` (ip-netns(8)), in each mount namespace that has a copy.
//
// The namespace of another user's process, and what it has open, is hidden from
// a user without privilege: ask mountd for the processes first.
bool IsHeld(std::uint64_t netns_inode, const std::string& pin);

}  // namespace mountd::cni_plugin
