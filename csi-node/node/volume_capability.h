// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "csi-node/types/csi_client.h"
#include "mountd/store/records.h"

// Describes how a volume is attached and who may share it (CSI spec,
// VolumeCapability). No text made here shows a mount flag, because flags may
// hold secrets.
namespace mountd::csi {

// "single-node-writer", and so on.
std::string_view AccessModeName(AccessMode mode);
std::optional<AccessMode> ParseAccessMode(std::string_view name);
bool IsReaderMode(AccessMode mode);
// True if several users on one node may write.
bool WritersMayShare(AccessMode mode);

// Returns a text without the flags: "file-system single-node-writer ext4
// flags=[REDACTED]".
std::string ToText(const VolumeCapability& capability);
// Returns a digest that is equal if two users' file system, flags and mount
// group are equal.
std::string DigestOf(const VolumeCapability& capability);

// NotSupported if the plugin does not offer what the capability needs.
// InvalidArgument if the capability contradicts itself ("a block device has no
// file system").
Result<void> CheckCapability(const VolumeCapability& capability,
                             const PluginCapabilities& offered, bool read_only,
                             const std::string& object);

}  // namespace mountd::csi
