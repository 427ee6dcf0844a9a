// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "csi-node/csi_local/store.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

// Binds a loop device under a new number to the volume's image, and writes the
// number into the record first. The volume must have none. With the lock of the
// volume's id.
Result<LoopDevice> TakeDevice(Store* store, VolumeRecord* record, LoopUse use);

// Removes the volume's loop device, if it has one, and returns when the kernel
// has none of that number: from then on nobody can write to the image. Waits
// for two seconds, because udev opens new devices for a moment.
// FailedPrecondition while somebody still has the device open, mapped, mounted,
// or below another device; the record keeps the number then, so that the same
// call can be made again. With the lock of the volume's id.
Result<void> ReleaseDevice(Store* store, VolumeRecord* record);

}  // namespace mountd::csi_local
