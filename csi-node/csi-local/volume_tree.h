// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "csi-node/csi-local/store.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Makes a mount or a device of a volume's content. The caller of each holds the
// lock of the volume's id.
namespace mountd::csi_local {

// Returns a mount of the volume that is attached nowhere yet; a copy of an
// existing mount if there is one. Grows the file system of an image that was
// grown. FailedPrecondition while an earlier use of the volume's device has not
// ended. Aborted while a tool of an earlier process still works on it.
Result<UniqueFd> MakeTree(Store* store, VolumeRecord* record);

// Before the first use, opens the volume's root directory to everybody. With a
// `group`, gives the directory, and all that is made in it later, to that group
// (VOLUME_MOUNT_GROUP).
Result<void> PrepareRoot(Store* store, VolumeRecord* record,
                         const UniqueFd& tree, std::optional<gid_t> group);

// Makes the volume's device, and holds it (loop_holds.h); binds it first if it
// is not bound. FailedPrecondition while an earlier use of it has not ended.
// AlreadyExists if it is bound with the other `read_only`.
Result<void> MakeDevice(Store* store, VolumeRecord* record, bool read_only);

// Grows the file system mounted at `node`, or the device there, to the volume's
// size.
Result<void> GrowAt(Store* store, const VolumeRecord& record,
                    const UniqueFd& node);

}  // namespace mountd::csi_local
