// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mountd/service_parts.h"

namespace mountd {

// Somebody who uses a file system.
struct FilesystemUser {
  std::uint32_t uid = 0;
  std::string what;  // "allocation web", "volume nfs/data"
};

// One that uses the file system of `mount`, by its device, beside the
// allocation of `mount`: another allocation by a mount or a published volume,
// or another volume by what is staged of it. Volumes of one plugin can be parts
// of one file system (NFS exports share one, a FUSE mount serves many). None if
// nobody does, or the mount has gone. An error where it cannot be told of all.
// Blocks; asks an executor of each mount, and no file system's server.
Result<std::optional<FilesystemUser>> FindOtherUser(const ServiceParts& parts,
                                                    const MountRecord& mount);

}  // namespace mountd
