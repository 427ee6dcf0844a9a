// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "csi-node/csi_client.h"
#include "mountd/store/records.h"

// How a volume is attached and who may share it (CSI spec, VolumeCapability).
// Mount flags may hold secrets: no text made here shows one.
namespace mountd::csi {

// "single-node-writer", and so on.
std::string_view AccessModeName(AccessMode mode);
std::optional<AccessMode> ParseAccessMode(std::string_view name);
bool IsReaderMode(AccessMode mode);
// Whether several users of one node may write.
bool WritersMayShare(AccessMode mode);

// Without the flags: "file-system single-node-writer ext4 flags=[REDACTED]".
std::string ToText(const VolumeCapability& capability);
// Tells whether two users' file system, flags and mount group are the same.
std::string DigestOf(const VolumeCapability& capability);

// NotSupported if the plugin does not offer what the capability needs;
// InvalidArgument if it is none ("a block device has no file system").
Result<void> CheckCapability(const VolumeCapability& capability,
                             const PluginCapabilities& offered, bool read_only,
                             const std::string& object);

}  // namespace mountd::csi
