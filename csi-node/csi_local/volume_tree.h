// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "csi-node/csi_local/store.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// How a volume gets a mount, or a device, out of what it consists of. All with
// the lock of its id.
namespace mountd::csi_local {

// A mount of the volume that nobody sees yet: of what is mounted of it already,
// if something is. An image that was grown has its file system grown.
// FailedPrecondition while an earlier use of its device has not ended; Aborted
// while a tool of an earlier process is still at work on it.
Result<UniqueFd> MakeTree(Store* store, VolumeRecord* record);

// Before the first use, its root directory becomes everybody's; with a `group`,
// that group's, and what is made in it later, too (VOLUME_MOUNT_GROUP).
Result<void> PrepareRoot(Store* store, VolumeRecord* record,
                         const UniqueFd& tree, std::optional<gid_t> group);

// Its device, bound first if it is not, and held (loop_holds.h).
// FailedPrecondition while an earlier use of it has not ended, AlreadyExists if
// it is bound the other way.
Result<void> MakeDevice(Store* store, VolumeRecord* record, bool read_only);

// Grows what is mounted at `node`, or is the device there, to the volume's
// size.
Result<void> GrowAt(Store* store, const VolumeRecord& record,
                    const UniqueFd& node);

}  // namespace mountd::csi_local
