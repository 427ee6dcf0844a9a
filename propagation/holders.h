// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// Looks for processes that use the mount: by working or root directory,
// program, open file or mapped file; of the mount itself, attached or not, or
// of a copy of it in the process's own mount namespace, which can keep it busy
// too. Threads with files of their own are not looked at.
//
// Of mounts that were handed out: also by a mount namespace of its own in which
// one is attached, as whoever attached it need not have it open.
//
// Opens none of these files. A file system that revalidates what is reached by
// a magic link (NFS, 9P) may still be asked, and hang with its server.
Result<exec::HoldersState> FindHolders(const Context& context,
                                       const exec::HoldersPlan& plan);

}  // namespace mountd::propagation
