// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "csi-node/csi-local/store.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

// Writes a new number into the record, then binds the loop device of that
// number to the volume's image. The volume must have no device. The caller
// holds the lock of the volume's id.
Result<LoopDevice> TakeDevice(Store* store, VolumeRecord* record, LoopUse use);

// Removes the volume's loop device, if it has one, and returns when the kernel
// has no device of that number; nobody can write to the image any more then.
// Waits for two seconds, because udev opens new devices for a moment.
// FailedPrecondition while somebody has the device open, mapped, mounted, or
// below another device; the record then keeps the number, so that the call can
// be repeated. The caller holds the lock of the volume's id.
Result<void> ReleaseDevice(Store* store, VolumeRecord* record);

}  // namespace mountd::csi_local
