// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mountd/service/service_parts.h"

namespace mountd {

// A user of a file system.
struct FilesystemUser {
  std::uint32_t uid = 0;
  std::string what;  // "allocation web", "volume nfs/data"
};

// Returns another user of the file system of `mount`: another allocation with a
// mount or a published volume, or another staged volume. Finds it by the file
// system's device, because volumes of one plugin can be parts of one file
// system (NFS exports share one, a FUSE mount serves many). Nothing if there is
// no other user, or the mount is gone. An error if some mount could not be
// looked at. Blocks. Asks an executor about each mount, and never a file
// system's server.
Result<std::optional<FilesystemUser>> FindOtherUser(const ServiceParts& parts,
                                                    const MountRecord& mount);

}  // namespace mountd
